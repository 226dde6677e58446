package broker

import "strings"

// awsDomains are those of AWS's partitions.
var awsDomains = []string{
	".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".on.aws", ".api.amazonwebservices.com.cn", ".on.amazonwebservices.com.cn",
	".amazonaws.eu", ".api.amazonwebservices.eu", ".on.amazonwebservices.eu",
}

// awsLabels are services whose hosts do not have the name that they are signed for.
var awsLabels = map[string]string{
	"email": "ses", "queue": "sqs", "ddb": "dynamodb", "pinpoint": "mobiletargeting", "marketplace": "aws-marketplace",
}

// fitsHost reports whether a host of AWS is one of this service and region; a signature for one service must not be made for another. A
// host outside of AWS says nothing about itself.
func fitsHost(host, service, region string) bool {
	for _, domain := range awsDomains {
		if prefix, ok := strings.CutSuffix(host, domain); ok {
			at, in := hostOf(prefix)
			return (at == service || strings.HasPrefix(at, service+"-") || awsLabels[at] == service) && (in == "" || in == region)
		}
	}
	return true
}

// hostOf reads service and region from the right of a host's labels: bucket.s3.dualstack.eu-west-1, vpce-1.sqs.eu-west-1.vpce,
// x.eu-west-1.es, iam. To their left stands what a customer chose. The region is empty where the host has none.
func hostOf(prefix string) (service, region string) {
	labels := strings.Split(prefix, ".")
	pop := func() (last string) {
		if n := len(labels); n > 0 {
			last, labels = labels[n-1], labels[:n-1]
		}
		return last
	}
	last := pop()
	for last == "vpce" || last == "dualstack" {
		last = pop()
	}
	if isRegion(last) {
		region = last
		if last = pop(); last == "dualstack" {
			last = pop()
		}
		return last, region
	}
	if rest, ok := strings.CutPrefix(last, "s3-"); ok && isRegion(rest) { // s3-eu-west-1
		return "s3", rest
	}
	if n := len(labels); n > 0 && isRegion(labels[n-1]) {
		region = labels[n-1]
	}
	return last, region
}

// isRegion reports whether a label is made like eu-west-1, us-gov-east-1.
func isRegion(label string) bool {
	parts := strings.Split(label, "-")
	n := len(parts)
	if n < 3 || len(parts[n-1]) == 0 || len(parts[n-1]) > 2 {
		return false
	}
	for i, p := range parts {
		for _, c := range []byte(p) {
			if digit := '0' <= c && c <= '9'; digit != (i == n-1) || !digit && (c < 'a' || c > 'z') {
				return false
			}
		}
		if p == "" {
			return false
		}
	}
	return true
}
