package openstack

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/gophercloud/gophercloud/v2"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// cloud is what is read of one entry of a clouds.yaml. Everything else is left alone on purpose:
// file paths (cacert, cert, key) would be read from our own disk, and profile and cloud pull in
// further files (A17). That is also why gophercloud's own parser is not used: it reads all of them,
// and environment variables too.
type cloud struct {
	AuthType string `json:"auth_type"`
	Auth     *auth  `json:"auth"`
	Region   string `json:"region_name"`
	// Interface and EndpointType are two names of one setting.
	Interface    string `json:"interface"`
	EndpointType string `json:"endpoint_type"`
	// Verify is a boolean, or text that reads like one.
	Verify any `json:"verify"`
}

type auth struct {
	AuthURL           string `json:"auth_url"`
	Username          string `json:"username"`
	UserID            string `json:"user_id"`
	Password          string `json:"password"`
	ProjectID         string `json:"project_id"`
	ProjectName       string `json:"project_name"`
	TenantID          string `json:"tenant_id"`
	TenantName        string `json:"tenant_name"`
	UserDomainID      string `json:"user_domain_id"`
	UserDomainName    string `json:"user_domain_name"`
	ProjectDomainID   string `json:"project_domain_id"`
	ProjectDomainName string `json:"project_domain_name"`
	DomainID          string `json:"domain_id"`
	DomainName        string `json:"domain_name"`
	// DefaultDomain is an ID.
	DefaultDomain string `json:"default_domain"`

	ApplicationCredentialID     string `json:"application_credential_id"`
	ApplicationCredentialName   string `json:"application_credential_name"`
	ApplicationCredentialSecret string `json:"application_credential_secret"`
}

// credential is what a clouds.yaml leads to.
type credential struct {
	auth         gophercloud.AuthOptions
	region       string
	availability gophercloud.Availability
	// unverified: TLS certificates are not checked, because credential and operator say so.
	unverified bool
}

// parseCredential reads one cloud of a clouds.yaml that a tenant may have written. The region of the
// identityRef wins over the file's, as in Cluster API's OpenStack provider.
//
// The error is always a *reason.Problem. It never wraps the parser's error, which quotes the file.
func parseCredential(cloudsYAML []byte, name, region string, allowInsecure bool) (credential, error) {
	c, err := decodeCloud(cloudsYAML, name)
	if err != nil {
		return credential{}, err
	}
	out := credential{region: region}
	if out.unverified, err = checkSecure(c, allowInsecure); err != nil {
		return credential{}, err
	}
	if out.region == "" {
		out.region = c.Region
	}
	if out.availability, err = availability(c); err != nil {
		return credential{}, err
	}
	out.auth, err = authOptions(c)
	return out, err
}

func decodeCloud(cloudsYAML []byte, name string) (c cloud, err error) {
	defer func() {
		if recover() != nil {
			c, err = cloud{}, invalid("clouds.yaml cannot be parsed")
		}
	}()
	var file struct {
		Clouds map[string]*cloud `json:"clouds"`
	}
	if yaml.Unmarshal(cloudsYAML, &file) != nil {
		return cloud{}, invalid("clouds.yaml cannot be parsed")
	}
	found := file.Clouds[name]
	switch {
	case found == nil:
		return cloud{}, reason.New(reason.CredentialMissing, "clouds.yaml has no cloud %s", reason.Quote(name))
	case found.Auth == nil:
		return cloud{}, invalid("cloud %s has no auth", reason.Quote(name))
	}
	return *found, nil
}

// checkSecure tells whether the credential asks for TLS that is not verified. That, and plain http,
// is refused unless the operator allows it.
func checkSecure(c cloud, allowInsecure bool) (unverified bool, err error) {
	endpoint, err := url.Parse(c.Auth.AuthURL)
	if err != nil || endpoint.Hostname() == "" || endpoint.User != nil || (endpoint.Scheme != "https" && endpoint.Scheme != "http") {
		return false, invalid("auth_url is missing or not of the form https://HOST:PORT/PATH")
	}
	if endpoint.Scheme != "https" && !allowInsecure {
		return false, reason.New(reason.CredentialInsecure, "auth_url is not https")
	}
	if c.Verify == nil {
		return false, nil
	}
	verify, err := strconv.ParseBool(fmt.Sprint(c.Verify))
	if err != nil {
		return false, invalid("verify is neither true nor false")
	}
	if !verify && !allowInsecure {
		return false, reason.New(reason.CredentialInsecure, "verify is false")
	}
	return !verify, nil
}

func availability(c cloud) (gophercloud.Availability, error) {
	chosen := c.EndpointType
	if chosen == "" {
		chosen = c.Interface
	}
	switch chosen {
	case "", "public", "publicURL":
		return gophercloud.AvailabilityPublic, nil
	case "internal", "internalURL":
		return gophercloud.AvailabilityInternal, nil
	case "admin", "adminURL":
		return gophercloud.AvailabilityAdmin, nil
	}
	return "", invalid("interface is none of public, internal and admin")
}

func authOptions(c cloud) (gophercloud.AuthOptions, error) {
	a := c.Auth
	options := gophercloud.AuthOptions{
		IdentityEndpoint: a.AuthURL,
		AllowReauth:      true,
		UserID:           a.UserID,
	}
	if a.UserID == "" {
		options.Username = a.Username
		options.DomainID, options.DomainName = firstPair(a.UserDomainID, a.UserDomainName, a.DomainID, a.DomainName, a.DefaultDomain, "")
	}
	switch c.AuthType {
	case "", "password", "v3password", "v3applicationcredential":
	default:
		return options, reason.New(reason.CredentialNotSupported, "auth_type is neither password nor v3applicationcredential")
	}
	if c.AuthType == "v3applicationcredential" || a.ApplicationCredentialID != "" || a.ApplicationCredentialName != "" {
		if a.ApplicationCredentialSecret == "" || (a.ApplicationCredentialID == "" && a.ApplicationCredentialName == "") {
			return options, invalid("an application credential needs application_credential_secret, and application_credential_id or _name")
		}
		options.ApplicationCredentialSecret = a.ApplicationCredentialSecret
		if a.ApplicationCredentialID != "" {
			// An ID stands for itself; a user beside it would make Keystone look for a name.
			options.ApplicationCredentialID = a.ApplicationCredentialID
			options.UserID, options.Username, options.DomainID, options.DomainName = "", "", "", ""
			return options, nil
		}
		options.ApplicationCredentialName = a.ApplicationCredentialName
		if !namesUser(options) {
			return options, invalid("application_credential_name needs user_id, or username and its domain")
		}
		return options, nil
	}
	if a.Password == "" || !namesUser(options) {
		return options, invalid("auth needs password, and user_id or username and its domain, or else an application credential")
	}
	options.Password = a.Password
	scope := &gophercloud.AuthScope{}
	scope.ProjectID, scope.ProjectName = firstPair(a.ProjectID, a.ProjectName, a.TenantID, a.TenantName)
	switch {
	case scope.ProjectID != "":
	case scope.ProjectName != "":
		scope.DomainID, scope.DomainName = firstPair(a.ProjectDomainID, a.ProjectDomainName, a.DomainID, a.DomainName, a.DefaultDomain, "")
		if scope.DomainID == "" && scope.DomainName == "" {
			return options, invalid("project_name needs its domain")
		}
	default:
		return options, invalid("auth has no project_id and no project_name")
	}
	options.Scope = scope
	return options, nil
}

// namesUser tells whether Keystone can find the user: a name is unique within its domain only.
// gophercloud would notice too, with an error that looks like one of the cloud.
func namesUser(o gophercloud.AuthOptions) bool {
	return o.UserID != "" || (o.Username != "" && (o.DomainID != "" || o.DomainName != ""))
}

// firstPair returns the first pair of ID and name that is set, the ID alone if both are.
func firstPair(idsAndNames ...string) (id, name string) {
	for i := 0; i+1 < len(idsAndNames); i += 2 {
		switch {
		case idsAndNames[i] != "":
			return idsAndNames[i], ""
		case idsAndNames[i+1] != "":
			return "", idsAndNames[i+1]
		}
	}
	return "", ""
}

func invalid(detail string, args ...any) error {
	return reason.New(reason.CredentialInvalid, detail, args...)
}
