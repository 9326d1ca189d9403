package openstack

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// FuzzParseCredential changes what a tenant writes. Whatever passes leads to https only, and to a
// request for a token that Keystone can make something of.
func FuzzParseCredential(f *testing.F) {
	for _, c := range hostileFiles() {
		if len(c.file) < 1000 {
			f.Add([]byte(c.file), "default", "")
		}
	}
	f.Add([]byte(named("domain_name", "d")), "default", "two")
	f.Add([]byte(password("user_id", "u", "tenant_id", "p")), "default", "two")
	f.Add([]byte(authKey("application_credential_id", "-", "application_credential_name", "n", "user_id", "u")), "default", "")
	f.Fuzz(func(t *testing.T, cloudsYAML []byte, name, region string) {
		got, err := parseCredential(cloudsYAML, name, region, false)
		if err == nil {
			checkAccepted(t, got)
			if region != "" && got.region != region {
				t.Errorf("region is %q, want %q", got.region, region)
			}
			return
		}
		problem := (&fixture{}).checkProblem(t, err, reason.Of(err, "").Reason)
		switch problem.Reason {
		case reason.CredentialMissing, reason.CredentialInvalid, reason.CredentialInsecure, reason.CredentialNotSupported:
		default:
			t.Errorf("%s is no reason that a file may lead to", problem.Reason)
		}
	})
}

// checkAccepted holds what was accepted to what is promised of it.
func checkAccepted(t *testing.T, c credential) {
	t.Helper()
	endpoint, err := url.Parse(c.auth.IdentityEndpoint)
	if err != nil || !strings.EqualFold(endpoint.Scheme, "https") || endpoint.Host == "" || endpoint.User != nil {
		t.Errorf("accepted the endpoint %q", c.auth.IdentityEndpoint)
	}
	if c.auth.TokenID != "" {
		t.Error("a token is passed through")
	}
	if !c.auth.AllowReauth {
		t.Error("the token cannot be renewed")
	}
	switch c.availability {
	case gophercloud.AvailabilityPublic, gophercloud.AvailabilityInternal, gophercloud.AvailabilityAdmin:
	default:
		t.Errorf("interface is %q", c.availability)
	}
	scope, err := c.auth.ToTokenV3ScopeMap()
	if err != nil {
		t.Errorf("the scope cannot be used: %v", err)
	}
	if application := c.auth.ApplicationCredentialID+c.auth.ApplicationCredentialName != ""; application == (scope["project"] != nil) {
		t.Errorf("an application credential: %t, with scope %v", application, scope)
	}
	if _, err := c.auth.ToTokenV3CreateMap(scope); err != nil {
		t.Errorf("the credential cannot be used: %v", err)
	}
}
