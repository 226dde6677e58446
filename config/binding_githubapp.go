package config

import "github.com/toolgate/toolgate/broker"

// repository is the name of a repository without its owner.
type repository string

func (repository) pattern() string { return repositoryPattern }
func (repository) shape() string   { return "a repository's name without its owner" }

// gitHubPermission is a permission of a GitHub App with its level.
type gitHubPermission string

func (gitHubPermission) pattern() string { return permissionPattern }
func (gitHubPermission) shape() string {
	return "a permission with its level, read, write or admin, such as contents:read"
}

const (
	repositoryPattern = `^[A-Za-z0-9._-]{1,100}$`
	permissionPattern = `^[a-z][a-z_]{0,63}:(read|write|admin)$`
)

type gitHubScheme string

func (gitHubScheme) values() []string { return []string{"bearer", "basic"} }

// gitHubApp checks a GitHub App and what its tokens may do.
func (c *sidecar) gitHubApp(f field[rawGitHubApp]) *broker.GitHubApp {
	raw := &f.V
	if f.ok && raw.AppID.present == raw.ClientID.present {
		c.errorf(f.at, "found both or neither of appID and clientID, expected one of them")
	}
	c.endpoint(raw.APIURL, true)
	ca, _ := c.roots(raw.CAFile)
	return &broker.GitHubApp{
		AppID: int64(raw.AppID.V), ClientID: raw.ClientID.V, InstallationID: int64(raw.InstallationID.V),
		PrivateKeyFile: c.keyFile(raw.PrivateKeyFile), Repositories: plain(raw.Repositories.V), Permissions: plain(raw.Permissions.V),
		Scheme: string(raw.Scheme.V), APIURL: raw.APIURL.V, CAFile: ca, MaxTTL: raw.MaxTTL.V, Timeout: raw.Timeout.V,
	}
}
