package request_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request/requesttest"
)

var (
	oidCN           = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidSerialNumber = asn1.ObjectIdentifier{2, 5, 4, 5}
	oidO            = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidOU           = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidEmail        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
)

func attr(id asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: id, Value: value}
}

// rdns is a subject of attributes that each stand in a set of their own.
func rdns(attributes ...pkix.AttributeTypeAndValue) pkix.RDNSequence {
	var subject pkix.RDNSequence
	for _, a := range attributes {
		subject = append(subject, pkix.RelativeDistinguishedNameSET{a})
	}
	return subject
}

// text is a string of a given ASN.1 type.
func text(tag int, bytes string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassUniversal, Tag: tag, Bytes: []byte(bytes)}
}

func TestSubject(t *testing.T) {
	cn, o := attr(oidCN, "system:node:n1"), attr(oidO, "system:nodes")
	other := attr(oidCN, "system:node:n2")
	subject := func(s pkix.RDNSequence) *object { return requesttest.New("n1", requesttest.Subject(s)) }
	huge := asn1.ObjectIdentifier{1, 2}
	for range 20_000 {
		huge = append(huge, 7)
	}
	runCases(t, []formCase{
		{"E05 username n1, CN n1", subject(rdns(o, cn)), passes},
		{"E05 username n1, CN n2", subject(rdns(o, other)), reason.SubjectMismatch},
		{"E05 CN in upper case", subject(rdns(o, attr(oidCN, "system:node:N1"))), reason.SubjectMismatch},
		{"E05 CN without prefix", subject(rdns(o, attr(oidCN, "n1"))), reason.SubjectMismatch},
		{"E05 CN with a space", subject(rdns(o, attr(oidCN, "system:node:n1 "))), reason.SubjectMismatch},
		{"E05 CN with a zero byte", subject(rdns(o, attr(oidCN, text(asn1.TagUTF8String, "system:node:n1\x00")))), reason.SubjectMismatch},
		{"E05 CN of control characters", subject(rdns(o, attr(oidCN, text(asn1.TagUTF8String, strings.Repeat("\x1b[31m", 3000))))), reason.SubjectMismatch},
		{"E05 no CN", subject(rdns(o)), reason.SubjectMismatch},
		{"E05 empty CN", subject(rdns(o, attr(oidCN, ""))), reason.SubjectMismatch},
		{"E05 two CNs, the right one last", subject(rdns(o, other, cn)), reason.SubjectMismatch},
		{"E05 two CNs, the right one first", subject(rdns(o, cn, other)), reason.SubjectMismatch},
		{"E05 the right CN twice", subject(rdns(o, cn, cn)), reason.SubjectMismatch},
		{"E05 1000 CNs", subject(rdns(append(many(1000, cn), o)...)), reason.SubjectMismatch},
		{"E05 two CNs in one set", subject(pkix.RDNSequence{{cn, other}, {o}}), reason.SubjectMismatch},
		{"E05 a number and the right CN", subject(rdns(o, attr(oidCN, 1), cn)), reason.SubjectMismatch},
		{"E05 CN is a number", subject(rdns(o, attr(oidCN, 1))), reason.SubjectMismatch},
		{"E05 CN is bytes", subject(rdns(o, attr(oidCN, []byte("system:node:n1")))), reason.SubjectMismatch},
		{"E05 CN is a bit string", subject(rdns(o, attr(oidCN, asn1.BitString{Bytes: []byte{1}, BitLength: 8}))), reason.SubjectMismatch},
		{"E05 CN is a sequence", subject(rdns(o, attr(oidCN, []string{"system:node:n1"}))), reason.SubjectMismatch},
		{"E05 CN is null", subject(rdns(o, attr(oidCN, asn1.NullRawValue))), reason.SubjectMismatch},

		// An honest CN may be written in several string types: the signer copies the text, not the bytes.
		{"E05 CN as UTF-8", subject(rdns(o, attr(oidCN, text(asn1.TagUTF8String, "system:node:n1")))), passes},
		{"E05 CN as T61", subject(rdns(o, attr(oidCN, text(asn1.TagT61String, "system:node:n1")))), passes},
		{"E05 CN first", subject(rdns(cn, o)), passes},
		{"E05 CN and O in one set", subject(pkix.RDNSequence{{cn, o}}), passes},

		{"E07 O with system:masters", subject(rdns(o, attr(oidO, "system:masters"), cn)), reason.SubjectMismatch},
		{"E07 O with system:masters first", subject(rdns(attr(oidO, "system:masters"), o, cn)), reason.SubjectMismatch},
		{"E07 O with system:masters in one set", subject(pkix.RDNSequence{{o, attr(oidO, "system:masters")}, {cn}}), reason.SubjectMismatch},
		{"E07 O is system:masters", subject(rdns(attr(oidO, "system:masters"), cn)), reason.SubjectMismatch},
		{"E07 O twice", subject(rdns(o, o, cn)), reason.SubjectMismatch},
		{"E07 O and a number", subject(rdns(o, attr(oidO, 1), cn)), reason.SubjectMismatch},
		{"E07 O in upper case", subject(rdns(attr(oidO, "System:Nodes"), cn)), reason.SubjectMismatch},
		{"E08 O empty, OU system:nodes", subject(rdns(attr(oidO, ""), attr(oidOU, "system:nodes"), cn)), reason.SubjectMismatch},
		{"E08 no O, OU system:nodes", subject(rdns(attr(oidOU, "system:nodes"), cn)), reason.SubjectMismatch},
		{"E08 no O", subject(rdns(cn)), reason.SubjectMismatch},
		{"E08 O empty", subject(rdns(attr(oidO, ""), cn)), reason.SubjectMismatch},
		{"E08 no subject", subject(nil), reason.SubjectMismatch},

		{"E24 OU", subject(rdns(o, cn, attr(oidOU, "x"))), reason.SubjectMismatch},
		{"E24 OU in the set of the CN", subject(pkix.RDNSequence{{o}, {cn, attr(oidOU, "x")}}), reason.SubjectMismatch},
		{"E24 serialNumber", subject(rdns(o, cn, attr(oidSerialNumber, "1"))), reason.SubjectMismatch},
		{"E24 e-mail address", subject(rdns(o, cn, attr(oidEmail, "a@example.org"))), reason.SubjectMismatch},
		{"E24 OU that is no string", subject(rdns(o, cn, attr(oidOU, 1))), reason.SubjectMismatch},
		{"E24 attribute of another tree", subject(rdns(o, cn, attr(asn1.ObjectIdentifier{2, 5, 4, 3, 1}, "x"))), reason.SubjectMismatch},
		{"A10 object identifier of 20000 numbers", subject(rdns(o, cn, attr(huge, "x"))), reason.SubjectMismatch},
		{"E24 empty sets beside it", derOf(handMade(marshal(pkix.RDNSequence{{}, {o}, {}, {cn}}), extensionRequest(sanExtension("n1")))), passes},
	})
}

func many(n int, a pkix.AttributeTypeAndValue) []pkix.AttributeTypeAndValue {
	all := make([]pkix.AttributeTypeAndValue, n)
	for i := range all {
		all[i] = a
	}
	return all
}
