// Package request decides whether a CertificateSigningRequest is a well-formed request for a
// kubelet's serving certificate, and takes out of it what has to be proven.
//
// It judges form only: whose the names and addresses are is the verdict's question. It knows no
// client, no clock and no context. Everything that an honest API server has checked already is
// checked here again, because the API server belongs to the cluster and is not trusted.
package request

import (
	"net/netip"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// Limits of what is looked at. A kubelet's request is below 1 KiB and has one SAN for each
// address in its Node's status.
const (
	// MaxSize of spec.request in bytes, checked before anything is decoded (A10).
	MaxSize = 64 << 10
	// MaxSANs is the most names and addresses together (A10).
	MaxSANs = 64
	// DefaultMaxExpiration is the longest lifetime that a request may ask for by default. The
	// signer's own limit is one year; a year with a leap day must fit.
	DefaultMaxExpiration = 366 * 24 * time.Hour
)

// Request is a well-formed request for a kubelet serving certificate. Only Parse makes one.
type Request struct {
	// Name, UID and ResourceVersion identify the object that was parsed. An approval is valid for
	// exactly this version of it (A19).
	Name            string
	UID             types.UID
	ResourceVersion string
	// Node is the node's name: the user who asked, without the prefix system:node:.
	Node string
	// DNSNames in lower case, without duplicates, in the order of the request.
	DNSNames []string
	// Addresses without duplicates, in the order of the request. IPv4-mapped IPv6 is turned into
	// IPv4, as the signer does (A07).
	Addresses []netip.Addr
}

// Parse applies the rules of form, cheap ones first, and returns what the
// request asks for.
//
// The rules, each with a reason of its own: the signer is kubernetes.io/kubelet-serving; the
// request is not decided; it is not larger than MaxSize; the user is system:node:NAME with a
// DNS-1123 name; its groups contain system:nodes and system:authenticated; the usages are exactly
// {digital signature, server auth}, with or without key encipherment; spec.request is exactly one
// PEM block; it parses; its signature verifies; its key is of an allowed kind; the subject is
// exactly CN = user and O = system:nodes; the SAN extension holds only DNS names and addresses, at
// least one and at most MaxSANs; every name is a plain DNS-1123 name; no address is of a special
// kind; the lifetime asked for is at most maxExpiration.
//
// Sources: the signer's contract in the Kubernetes documentation (Certificate Signing Requests,
// "Kubernetes signers"), ValidateKubeletServingCSR in k8s.io/kubernetes/pkg/apis/certificates, and
// rules that answer attacks (A…), which docs/threat-model.md lists.
//
// The error is always a *reason.Problem.
func Parse(csr *certificatesv1.CertificateSigningRequest, maxExpiration time.Duration) (Request, error) {
	if err := checkSigner(csr); err != nil {
		return Request{}, err
	}
	if Decided(csr) {
		return Request{}, reason.New(reason.AlreadyDecided, "")
	}
	if len(csr.Spec.Request) > MaxSize {
		return Request{}, reason.New(reason.RequestTooLarge, "%d bytes, at most %d are looked at", len(csr.Spec.Request), MaxSize)
	}
	node, err := checkUser(csr)
	if err != nil {
		return Request{}, err
	}
	if err := checkGroups(csr); err != nil {
		return Request{}, err
	}
	if err := checkUsages(csr); err != nil {
		return Request{}, err
	}
	x509CSR, err := decode(csr.Spec.Request)
	if err != nil {
		return Request{}, err
	}
	if err := checkSubject(x509CSR, csr.Spec.Username); err != nil {
		return Request{}, err
	}
	if err := checkSANExtension(x509CSR); err != nil {
		return Request{}, err
	}
	names, err := dnsNames(x509CSR)
	if err != nil {
		return Request{}, err
	}
	addrs, err := addresses(x509CSR)
	if err != nil {
		return Request{}, err
	}
	if err := checkExpiration(csr, maxExpiration); err != nil {
		return Request{}, err
	}
	return Request{
		Name:            csr.Name,
		UID:             csr.UID,
		ResourceVersion: csr.ResourceVersion,
		Node:            node,
		DNSNames:        names,
		Addresses:       addrs,
	}, nil
}
