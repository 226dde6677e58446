package broker

import "github.com/toolgate/toolgate/redact"

// federated is the token that tells a cloud's token service who asks: the workload's or the caller's.
type federated struct{ file *watched[line] } // nil: the caller's

// newFederated reads the file once, so that a mistake is found early.
func newFederated(path string) (federated, error) {
	if path == "" {
		return federated{}, nil
	}
	f := federated{watchLine(path)}
	if _, err := f.file.get(); err != nil {
		return federated{}, fileProblem("subjectTokenFile", path, err)
	}
	return f, nil
}

// of returns the token to show for s, and the hash of a workload's; the caller's is in every key already.
func (f federated) of(s *Subject) (redact.Secret, string, Reason) {
	switch {
	case s.Subject == "" || s.Tool == "":
		return redact.Secret{}, "", NoIdentity
	case f.file == nil && s.Token.IsZero():
		return redact.Secret{}, "", NoSubjectToken
	case f.file == nil:
		return s.Token, "", ""
	}
	l, err := f.file.get()
	if err != nil {
		return redact.Secret{}, "", SecretUnreadable
	}
	return l.value, l.hash, ""
}
