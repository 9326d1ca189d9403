// Package version names the build.
package version

// Version is set at build time with -ldflags "-X …/internal/version.Version=v1.2.3".
var Version = "dev"

// UserAgent is what OpenStack's operators and workload clusters' audit logs see.
func UserAgent() string { return "cluster-api-csr-approver/" + Version }
