package settings

// defaults are the settings of a file that says nothing beyond what is required.
func defaults() *Settings {
	return &Settings{
		ImagePullPolicy:  "IfNotPresent",
		Mode:             Explicit,
		UID:              64117,
		ToolUID:          64200,
		IPv6:             true,
		UnknownPodFields: RefuseUnknown,
		Resources:        Resources{CPURequest: "20m", CPULimit: "1", MemoryRequest: "48Mi", MemoryLimit: "128Mi"},
		FenceResources:   Resources{CPURequest: "10m", CPULimit: "200m", MemoryRequest: "32Mi", MemoryLimit: "64Mi"},
		Probes: Probes{
			StartupPeriodSeconds: 1, StartupFailures: 120, ReadinessPeriodSeconds: 5,
			LivenessPeriodSeconds: 10, LivenessFailures: 6, TimeoutSeconds: 2,
		},
		TokenAudience:  "toolgate",
		Cluster:        Cluster{Issuer: "https://kubernetes.default.svc", JWKSURL: "https://kubernetes.default.svc/openid/v1/jwks"},
		SecretName:     "toolgate-secrets",
		CA:             CA{SystemBundle: true},
		ProxyVariables: ProxyVariables{Enabled: true},
		KillSwitch:     KillSwitch{Audience: "toolgate-killswitch"},
		Gateway:        Gateway{Audience: "toolgate-gateway"},
		ToolsDir:       "/etc/toolgate/tools",
	}
}
