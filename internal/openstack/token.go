package openstack

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// token is what a session keeps of Keystone's answer. gophercloud would keep all of it, the catalog
// twice, which with many clusters is most of the memory.
type token struct {
	id      string
	expires time.Time
}

// ExtractTokenID is what gophercloud asks for.
func (t token) ExtractTokenID() (string, error) { return t.id, nil }

// grant is what Keystone gives for a credential.
type grant struct {
	token
	project string
	catalog tokens.ServiceCatalog
}

// newToken asks Keystone for a token. The error is always a *reason.Problem.
func newToken(ctx context.Context, keystone *gophercloud.ProviderClient, auth gophercloud.AuthOptions) (grant, error) {
	client, err := openstack.NewIdentityV3(keystone, gophercloud.EndpointOpts{})
	if err != nil {
		return grant{}, invalid("auth_url cannot be used")
	}
	scope, err := auth.ToTokenV3ScopeMap()
	if err != nil {
		return grant{}, invalid("the scope cannot be used")
	}
	body, err := auth.ToTokenV3CreateMap(scope)
	if err != nil {
		return grant{}, invalid("auth cannot be used")
	}
	var answer struct {
		Token struct {
			Expires time.Time `json:"expires_at"`
			Project struct {
				ID string `json:"id"`
			} `json:"project"`
			Catalog []tokens.CatalogEntry `json:"catalog"`
		} `json:"token"`
	}
	response, err := client.Post(ctx, client.ServiceURL("auth", "tokens"), body, &answer, nil) //nolint:bodyclose // read and closed by gophercloud
	if err != nil {
		return grant{}, problem(callToken, err)
	}
	id := response.Header.Get("X-Subject-Token")
	switch {
	case id == "" || answer.Token.Expires.IsZero():
		return grant{}, reason.New(reason.CloudAnswerInvalid, "%s: the answer has no token", callToken)
	case answer.Token.Project.ID == "":
		return grant{}, reason.New(reason.CredentialInvalid, "the token is not for a project")
	}
	return grant{
		token:   token{id: id, expires: answer.Token.Expires},
		project: answer.Token.Project.ID,
		catalog: tokens.ServiceCatalog{Entries: answer.Token.Catalog},
	}, nil
}
