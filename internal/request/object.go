package request

import (
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

const (
	userPrefix         = "system:node:"
	nodesGroup         = "system:nodes"
	authenticatedGroup = "system:authenticated"
)

// Node returns the node that a request is from, or the reason why it is not the approver's to
// judge: another signer, or not from a node. It looks at the object's fields only, never at
// spec.request, and so serves as the filter of what is kept of a cluster's requests. Requests of other users on this signer are somebody else's: ignored, never denied (E04).
func Node(csr *certificatesv1.CertificateSigningRequest) (string, error) {
	if err := checkSigner(csr); err != nil {
		return "", err
	}
	return checkUser(csr)
}

func checkSigner(csr *certificatesv1.CertificateSigningRequest) error {
	if csr.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		return reason.New(reason.OtherSigner, "the signer is %s", reason.Quote(csr.Spec.SignerName))
	}
	return nil
}

// checkUser is the first rule of the signer's contract: the user is a node. The groups are checked
// apart, because a node without its groups is refused, not ignored.
func checkUser(csr *certificatesv1.CertificateSigningRequest) (string, error) {
	node, ok := strings.CutPrefix(csr.Spec.Username, userPrefix)
	if !ok || !isDNS1123(node) {
		return "", reason.New(reason.NotANode, "the user is %s, expected %sNAME with a DNS-1123 name",
			reason.Quote(csr.Spec.Username), userPrefix)
	}
	return node, nil
}

// isDNS1123 looks at the length first: the pattern alone takes half a second for 10 MB, which an
// API server can put into any field.
func isDNS1123(name string) bool {
	return len(name) <= validation.DNS1123SubdomainMaxLength && len(validation.IsDNS1123Subdomain(name)) == 0
}

// checkGroups: the API server always adds system:authenticated, so its absence shows a forged object.
func checkGroups(csr *certificatesv1.CertificateSigningRequest) error {
	for _, want := range []string{nodesGroup, authenticatedGroup} {
		if !slices.Contains(csr.Spec.Groups, want) {
			return reason.New(reason.GroupsMissing, "the user %s is not in group %s", reason.Quote(csr.Spec.Username), want)
		}
	}
	return nil
}

// checkUsages follows ValidateKubeletServingCSR: one of two exact sets. Key encipherment is what
// kubelets before 1.27, and those with RSA keys, add (kubernetes#109077).
func checkUsages(csr *certificatesv1.CertificateSigningRequest) error {
	got := slices.Sorted(slices.Values(csr.Spec.Usages))
	want := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	wantRSA := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth}
	if slices.Equal(got, want) || slices.Equal(got, wantRSA) {
		return nil
	}
	return reason.New(reason.UsagesNotAllowed, "the usages are %s, expected digital signature and server auth, with or without key encipherment",
		reason.Quote(joined(got)))
}

// checkExpiration: the signer caps the lifetime anyway; a longer wish shows that no kubelet asked.
func checkExpiration(csr *certificatesv1.CertificateSigningRequest, most time.Duration) error {
	if csr.Spec.ExpirationSeconds == nil {
		return nil
	}
	asked := time.Duration(*csr.Spec.ExpirationSeconds) * time.Second
	if asked > most {
		return reason.New(reason.ExpirationTooLong, "asks for %s, at most %s is allowed", asked, most)
	}
	return nil
}

func joined(usages []certificatesv1.KeyUsage) string {
	texts := make([]string, len(usages))
	for i, u := range usages {
		texts[i] = string(u)
	}
	return strings.Join(texts, ", ")
}

// Decided tells whether a request is approved, denied, failed or issued: nothing is left to decide.
func Decided(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) > 0 ||
		slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved ||
				c.Type == certificatesv1.CertificateDenied ||
				c.Type == certificatesv1.CertificateFailed
		})
}
