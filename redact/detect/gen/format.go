package main

// tomlConfig is what is read of the module's configuration.
type tomlConfig struct {
	Allowlist struct {
		Regexes   []string
		Stopwords []string
	}
	Rules []struct {
		ID          string
		Regex       string
		SecretGroup int
		Entropy     float64
		Keywords    []string
		Allowlists  []tomlAllow
	}
}

type tomlAllow struct {
	Condition   string
	RegexTarget string
	Regexes     []string
	Stopwords   []string
	Paths       []string
	Commits     []string
}

// file is what package detect reads.
type file struct {
	Source  string   `json:"source"`
	Licence string   `json:"licence"`
	Allow   []string `json:"allow"`
	Stop    []string `json:"stop"`
	Rules   []rule   `json:"rules,omitempty"`
}

type rule struct {
	ID       string   `json:"id"`
	Regex    string   `json:"regex"`
	Group    int      `json:"group,omitempty"`
	Entropy  float64  `json:"entropy,omitempty"`
	Keywords []string `json:"keywords,omitempty"`
	Allow    []allow  `json:"allow,omitempty"`
}

type allow struct {
	Match   bool     `json:"match,omitempty"`
	Regexes []string `json:"regexes,omitempty"`
	Hashes  []string `json:"hashes,omitempty"`
	Stop    []string `json:"stop,omitempty"`
}
