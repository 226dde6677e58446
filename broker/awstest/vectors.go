package awstest

// Vector is a request with the signature that AWS publishes for it.
type Vector struct {
	Name, Service, Host, Target string
	Header                      map[string]string // signed besides host and x-amz-date
	Keys                        Keys
	Date                        string // X-Amz-Date; the region is us-east-1, and there is no body
	SignedHeaders, Signature    string
}

const (
	suiteHost, suiteDate = "example.amazonaws.com", "20150830T123600Z"
	s3Host, s3Date       = "examplebucket.s3.amazonaws.com", "20130524T000000Z"
	plain                = "host;x-amz-date"
	empty                = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var (
	suite = Keys{ID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	s3    = Keys{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
)

// Vectors are of AWS's signing test suite (awslabs/aws-c-auth, aws-signing-test-suite/v4) and of the examples in the API reference of S3
// ("Authenticating Requests: Using the Authorization Header").
var Vectors = []Vector{
	{"get-relative-normalized", "service", suiteHost, "/example/..", nil, suite, suiteDate, plain, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
	{"get-slashes-normalized", "service", suiteHost, "//example//", nil, suite, suiteDate, plain, "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"},
	{"get-slash-pointless-dot-normalized", "service", suiteHost, "/./example", nil, suite, suiteDate, plain, "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"},
	{"get-vanilla-query-order-encoded", "service", suiteHost, "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1", nil, suite, suiteDate, plain, "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
	{"get-vanilla-utf8-query", "service", suiteHost, "/?%E1%88%B4=bar", nil, suite, suiteDate, plain, "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
	{"get-header-value-trim", "service", suiteHost, "/", map[string]string{"My-Header1": "value1", "My-Header2": `"a   b   c"`}, suite, suiteDate, "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
	{"get-vanilla-with-session-token", "service", suiteHost, "/", nil, Keys{suite.ID, suite.Secret, "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"}, suiteDate, "host;x-amz-date;x-amz-security-token", "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
	{"GET Object", "s3", s3Host, "/test.txt", map[string]string{"Range": "bytes=0-9", "X-Amz-Content-Sha256": empty}, s3, s3Date, "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
	{"GET Bucket Lifecycle", "s3", s3Host, "/?lifecycle", map[string]string{"X-Amz-Content-Sha256": empty}, s3, s3Date, "host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
	{"Get Bucket (List Objects)", "s3", s3Host, "/?max-keys=2&prefix=J", map[string]string{"X-Amz-Content-Sha256": empty}, s3, s3Date, "host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
}
