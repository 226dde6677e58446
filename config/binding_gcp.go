package config

import (
	"time"

	"github.com/toolgate/toolgate/broker"
)

type rawGCP struct {
	Provider         field[string]           `key:"provider" is:"required" doc:"Full name of the workload identity provider, //iam.googleapis.com/projects/…/providers/…."`
	ServiceAccount   field[string]           `key:"serviceAccount" doc:"E-mail address of the service account to impersonate. Missing: the federated identity itself."`
	Scopes           field[[]field[scope]]   `key:"scopes" is:"required,nonempty" doc:"Scopes of the token, exactly."`
	Lifetime         field[time.Duration]    `key:"lifetime" default:"15m" min:"1s" max:"12h" doc:"Lifetime of a service account's token. Google takes more than an hour only where an organisation policy says so."`
	Subject          field[federatedSubject] `key:"subject" default:"workload" doc:"Whose token is shown to Google: workload, or caller."`
	SubjectTokenFile field[string]           `key:"subjectTokenFile" doc:"File with the workload's token for Google. Missing: identity.workloadTokenFile."`
	SubjectTokenType field[string]           `key:"subjectTokenType" default:"urn:ietf:params:oauth:token-type:jwt" doc:"Type of that token."`
	STSURL           field[string]           `key:"stsURL" default:"https://sts.googleapis.com/v1/token" doc:"Token endpoint. https, or http on a loopback address."`
	IAMURL           field[string]           `key:"iamURL" default:"https://iamcredentials.googleapis.com" doc:"IAM Service Account Credentials API, without a path. https, or http on a loopback address."`
	CAFile           field[string]           `key:"caFile" is:"blank" doc:"PEM file of the roots for both, in place of the system's."`
	Timeout          field[time.Duration]    `key:"timeout" default:"10s" min:"1ms" max:"60s" doc:"Timeout of one attempt."`
	MaxTTL           field[time.Duration]    `key:"maxTTL" default:"15m" min:"1s" max:"24h" doc:"Longest time that a token is kept."`
}

func (c *sidecar) gcp(f field[rawGCP]) *broker.GCP {
	raw := &f.V
	if raw.Provider.at.line == 0 {
		return nil // not a mapping
	}
	c.endpoint(raw.STSURL, true)
	c.endpoint(raw.IAMURL, true)
	if raw.Lifetime.present && !raw.ServiceAccount.present {
		c.errorf(raw.Lifetime.at, "found lifetime without serviceAccount, expected both or neither: Google alone says how long a federated token lives")
	}
	ca, _ := c.roots(raw.CAFile)
	return &broker.GCP{
		Provider: raw.Provider.V, ServiceAccount: raw.ServiceAccount.V, Scopes: plain(raw.Scopes.V), Lifetime: raw.Lifetime.V,
		SubjectTokenFile: c.subjectToken(f.at, raw.Subject, raw.SubjectTokenFile), SubjectTokenType: raw.SubjectTokenType.V,
		STSURL: raw.STSURL.V, IAMURL: raw.IAMURL.V, CAFile: ca, MaxTTL: raw.MaxTTL.V, Timeout: raw.Timeout.V,
	}
}
