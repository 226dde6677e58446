package config

import (
	"time"

	"github.com/toolgate/toolgate/broker"
)

type rawAWS struct {
	RoleARN          field[roleARN]           `key:"roleARN" is:"required" doc:"Role to assume."`
	STSURL           field[string]            `key:"stsURL" doc:"STS endpoint. https, or http on a loopback address. Missing: that of the first of regions."`
	Subject          field[federatedSubject]  `key:"subject" default:"workload" doc:"Whose token is shown to STS: workload, or caller."`
	SubjectTokenFile field[string]            `key:"subjectTokenFile" doc:"File with the workload's token for STS. Missing: identity.workloadTokenFile."`
	Policy           field[string]            `key:"policy" doc:"Session policy in JSON, at most 2048 characters. The session may do what both the role and it allow."`
	Services         field[[]field[awsLabel]] `key:"services" is:"required,nonempty" doc:"Services that tools may use, by their signing names such as s3 or dynamodb."`
	Regions          field[[]field[awsLabel]] `key:"regions" is:"required,nonempty" doc:"Regions that tools may use."`
	UnsignedPayload  field[bool]              `key:"unsignedPayload" default:"false" doc:"Pass on bodies to S3 that the tool does not sign, without reading them. SDKs upload like that. False: they are read and signed, or refused if they come in pieces."`
	MaxBody          field[int]               `key:"maxBody" default:"8388608" min:"1" max:"33554432" doc:"Bytes of a body that is read to be signed; a larger one is refused."`
	CAFile           field[string]            `key:"caFile" is:"blank" doc:"PEM file of the roots for stsURL, in place of the system's."`
	Timeout          field[time.Duration]     `key:"timeout" default:"10s" min:"1ms" max:"60s" doc:"Timeout of one attempt at STS."`
}

// federatedSubject is who a cloud's token service is told is asking.
type federatedSubject string

func (federatedSubject) values() []string { return []string{"workload", "caller"} }

const (
	roleARNPattern  = `^arn:[a-z-]{1,32}:iam::[0-9]{0,16}:role/[\x21-\x7e]{1,512}$`
	awsLabelPattern = `^[a-z0-9-]{1,64}$`
)

// roleARN names a role of AWS.
type roleARN string

func (roleARN) pattern() string { return roleARNPattern }
func (roleARN) shape() string {
	return "the ARN of a role such as arn:aws:iam::123456789012:role/orders"
}

// awsLabel is a service or a region as it stands in a signature's scope.
type awsLabel string

func (awsLabel) pattern() string { return awsLabelPattern }
func (awsLabel) shape() string {
	return "a name as it stands in a signature, such as s3 or eu-central-1"
}

// vending are services that hand out credentials or take them in: what a tool asks of them it holds.
var vending = map[awsLabel]bool{"sts": true, "iam": true, "sso": true, "cognito-identity": true, "ecr": true, "codeartifact": true}

func (c *sidecar) aws(f field[rawAWS]) *broker.AWS {
	raw := &f.V
	if raw.RoleARN.at.line == 0 {
		return nil // not a mapping
	}
	c.endpoint(raw.STSURL, true)
	for _, s := range raw.Services.V {
		if vending[s.V] {
			c.warnf(s.at, "service %s hands out credentials, which the tool then holds: narrow the role or the policy to what does not", s.V)
		}
	}
	ca, _ := c.roots(raw.CAFile)
	return &broker.AWS{
		RoleARN: string(raw.RoleARN.V), STSURL: raw.STSURL.V, SubjectTokenFile: c.subjectToken(f.at, raw.Subject, raw.SubjectTokenFile),
		Policy: raw.Policy.V, Services: plain(raw.Services.V), Regions: plain(raw.Regions.V), UnsignedPayload: raw.UnsignedPayload.V,
		MaxBody: int64(raw.MaxBody.V), CAFile: ca, Timeout: raw.Timeout.V,
	}
}

// subjectToken returns the file of the workload's token; empty where the caller's is shown.
func (c *sidecar) subjectToken(at mark, subject field[federatedSubject], file field[string]) string {
	if subject.V == "caller" {
		if file.present {
			c.errorf(file.at, "found subjectTokenFile, expected none: subject is caller")
		}
		return ""
	}
	path := c.secretFile(file)
	if path == "" {
		path = c.resolve(c.raw.Identity.V.WorkloadTokenFile)
	}
	if path == "" && subject.ok && !file.present {
		c.errorf(at, "found no token of the workload, expected subjectTokenFile or identity.workloadTokenFile, or subject: caller")
	}
	return path
}
