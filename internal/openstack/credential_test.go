package openstack

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// cloudFile is a clouds.yaml with one usable cloud, whose keys the table changes.
type cloudFile struct{ cloud, auth map[string]string }

func usable() cloudFile {
	return cloudFile{
		cloud: map[string]string{"region_name": "one"},
		auth: map[string]string{"auth_url": "https://keystone.example.org:5000/v3",
			"application_credential_id": "id", "application_credential_secret": canary},
	}
}

func (c cloudFile) String() string {
	var b strings.Builder
	b.WriteString("clouds:\n  default:\n")
	for _, key := range slices.Sorted(maps.Keys(c.cloud)) {
		fmt.Fprintf(&b, "    %s: %s\n", key, c.cloud[key])
	}
	b.WriteString("    auth:\n")
	for _, key := range slices.Sorted(maps.Keys(c.auth)) {
		fmt.Fprintf(&b, "      %s: %s\n", key, c.auth[key])
	}
	return b.String()
}

// authKey and cloudKey make a usable file with one other key; "-" leaves the key out.
func authKey(keysAndValues ...string) string {
	file := usable()
	change(file.auth, keysAndValues)
	return file.String()
}

func cloudKey(keysAndValues ...string) string {
	file := usable()
	change(file.cloud, keysAndValues)
	return file.String()
}

func change(keys map[string]string, keysAndValues []string) {
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if keys[keysAndValues[i]] = keysAndValues[i+1]; keysAndValues[i+1] == "-" {
			delete(keys, keysAndValues[i])
		}
	}
}

// password makes a file with a password, and the given keys.
func password(keysAndValues ...string) string {
	return authKey(append([]string{"application_credential_id", "-", "application_credential_secret", "-", "password", canary}, keysAndValues...)...)
}

// named has no domain; with one it is complete.
func named(keysAndValues ...string) string {
	return password(append([]string{"username", "u", "project_name", "p"}, keysAndValues...)...)
}

type parseCase struct {
	name, file string
	want       reason.Reason
}

// hostileFiles holds what a tenant may write, with the reason that it leads to; "" is usable.
func hostileFiles() []parseCase {
	const ok = reason.Reason("")
	const tooNested = 20_000
	bomb := "a: &a [" + strings.Repeat("x,", 9) + "x]\n"
	for c := 'b'; c <= 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	cases := []parseCase{
		{"usable", usable().String(), ok},

		{"A17 no auth", "clouds: {default: {region_name: one}}", reason.CredentialInvalid},
		{"A17 auth is null", "clouds: {default: {auth: null}}", reason.CredentialInvalid},
		{"auth is empty", "clouds: {default: {auth: {}}}", reason.CredentialInvalid},
		{"auth is text", "clouds: {default: {auth: " + canary + "}}", reason.CredentialInvalid},
		{"auth is a list", "clouds: {default: {auth: [" + canary + "]}}", reason.CredentialInvalid},
		{"the cloud is null", "clouds: {default: null}", reason.CredentialMissing},
		{"the cloud is text", "clouds: {default: " + canary + "}", reason.CredentialInvalid},
		{"clouds is null", "clouds: null", reason.CredentialMissing},
		{"clouds is a list", "clouds: [" + canary + "]", reason.CredentialInvalid},
		{"no clouds", "public-clouds: {default: {auth: {}}}", reason.CredentialMissing},
		{"the file is text", canary, reason.CredentialInvalid},
		{"the file is a list", "[" + canary + "]", reason.CredentialInvalid},
		{"the file is null", "null", reason.CredentialMissing},
		{"the file is broken", "clouds: {default: " + canary, reason.CredentialInvalid},
		{"tabs", "clouds:\n\tdefault: " + canary, reason.CredentialInvalid},
		{"not UTF-8", "clouds: {default: {auth: \xff\xfe}}", reason.CredentialInvalid},
		{"zero bytes", strings.Repeat("\x00", 100), reason.CredentialInvalid},
		{"a second document", usable().String() + "---\nclouds: {}\n", ok},
		{"the cloud twice: the last counts", usable().String() + "  default: {auth: {auth_url: 'http://" + canary + "'}}\n", reason.CredentialInsecure},
		{"a bomb of aliases", bomb + usable().String(), reason.CredentialInvalid},
		{"an alias in itself", "clouds: &a {default: *a}", reason.CredentialInvalid},
		{"a merge", "x: &x {auth_url: 'https://k.example.org'}\nclouds: {default: {auth: {<<: *x, application_credential_id: i, application_credential_secret: s}}}", ok},
		{"nested lists", "clouds: {default: " + strings.Repeat("[", tooNested) + strings.Repeat("]", tooNested) + "}", reason.CredentialInvalid},
		{"nested maps", "clouds: " + strings.Repeat("{a: ", tooNested) + strings.Repeat("}", tooNested), reason.CredentialInvalid},
		{"a huge file", strings.Repeat("# "+canary+"\n", 50_000) + usable().String(), ok},
		{"a huge value", authKey("application_credential_secret", strings.Repeat("x", 1<<20)), ok},
		{"many clouds", usable().String() + manyClouds(5000), ok},

		{"no auth_url", authKey("auth_url", "-"), reason.CredentialInvalid},
		{"A17 http", authKey("auth_url", "http://"+canary+"/v3"), reason.CredentialInsecure},
		{"A17 http in upper case", authKey("auth_url", "HTTP://"+canary+"/v3"), reason.CredentialInsecure},
		{"https in upper case", authKey("auth_url", "HTTPS://"+canary+"/v3"), ok},
		{"A17 a file", authKey("auth_url", "file:///etc/"+canary), reason.CredentialInvalid},
		{"a socket", authKey("auth_url", "unix:///run/"+canary), reason.CredentialInvalid},
		{"no scheme", authKey("auth_url", canary+":5000/v3"), reason.CredentialInvalid},
		{"two slashes", authKey("auth_url", "//"+canary+"/v3"), reason.CredentialInvalid},
		{"no host", authKey("auth_url", "https:///"+canary), reason.CredentialInvalid},
		{"no host, but a port", authKey("auth_url", "https://:443/"+canary), reason.CredentialInvalid},
		{"opaque", authKey("auth_url", "https:"+canary), reason.CredentialInvalid},
		{"a port that is no number", authKey("auth_url", "https://h:"+canary+"/"), reason.CredentialInvalid},
		{"control characters", authKey("auth_url", `"https://h/\x01`+canary+`"`), reason.CredentialInvalid},
		{"a line break in the host", authKey("auth_url", `"https://h\nx/`+canary+`"`), reason.CredentialInvalid},
		{"user and password in the URL", authKey("auth_url", "https://u:"+canary+"@h/v3"), reason.CredentialInvalid},
		{"user in the URL", authKey("auth_url", "https://"+canary+"@h/v3"), reason.CredentialInvalid},
		{"an empty user in the URL", authKey("auth_url", "https://@h/v3"), reason.CredentialInvalid},
		{"auth_url is a map", authKey("auth_url", "{a: "+canary+"}"), reason.CredentialInvalid},

		{"an unknown auth_type", cloudKey("auth_type", "v3"+canary[:6]), reason.CredentialNotSupported},
		{"auth_type token", cloudKey("auth_type", "token"), reason.CredentialNotSupported},
		{"auth_type v3token", cloudKey("auth_type", "v3token"), reason.CredentialNotSupported},
		{"auth_type v2password", cloudKey("auth_type", "v2password"), reason.CredentialNotSupported},
		{"auth_type in upper case", cloudKey("auth_type", "Password"), reason.CredentialNotSupported},
		{"auth_type is a list", cloudKey("auth_type", "["+canary+"]"), reason.CredentialInvalid},
		{"a very long auth_type", cloudKey("auth_type", strings.Repeat("x", 10_000)), reason.CredentialNotSupported},
		{"auth_type v3applicationcredential", cloudKey("auth_type", "v3applicationcredential"), ok},
		{"auth_type says application credential, auth has none", named("domain_id", "d") + "    auth_type: v3applicationcredential\n", reason.CredentialInvalid},
		{"a token", authKey("application_credential_id", "-", "application_credential_secret", "-", "token", canary, "project_id", "p"), reason.CredentialInvalid},
		{"a token beside a password", named("domain_id", "d", "token", canary), ok},

		{"no secret", authKey("application_credential_secret", "-"), reason.CredentialInvalid},
		{"an empty secret", authKey("application_credential_secret", `""`), reason.CredentialInvalid},
		{"a secret that is null", authKey("application_credential_secret", "null"), reason.CredentialInvalid},
		{"a secret that is a map", authKey("application_credential_secret", "{a: "+canary+"}"), reason.CredentialInvalid},
		{"a secret and no credential", authKey("application_credential_id", "-"), reason.CredentialInvalid},
		{"a name and no user", authKey("application_credential_id", "-", "application_credential_name", "n"), reason.CredentialInvalid},
		{"a name and a user without a domain", authKey("application_credential_id", "-", "application_credential_name", "n", "username", "u"), reason.CredentialInvalid},
		{"a password and nothing else", password(), reason.CredentialInvalid},
		{"no password", named("domain_id", "d", "password", "-"), reason.CredentialInvalid},
		{"no user", named("domain_id", "d", "username", "-"), reason.CredentialInvalid},
		{"no domains", named(), reason.CredentialInvalid},
		{"no domain of the user", named("project_domain_id", "d"), reason.CredentialInvalid},
		{"no domain of the project", named("user_domain_id", "d"), reason.CredentialInvalid},
		{"no project", named("domain_id", "d", "project_name", "-"), reason.CredentialInvalid},
		{"system scope", named("domain_id", "d", "project_name", "-", "system_scope", "all"), reason.CredentialInvalid},
		{"trust scope", named("domain_id", "d", "project_name", "-", "trust_id", "t"), reason.CredentialInvalid},

		{"interface is a list", cloudKey("interface", "["+canary+"]"), reason.CredentialInvalid},
		{"an unknown interface", cloudKey("interface", "x"), reason.CredentialInvalid},
		{"a region that is a map", cloudKey("region_name", "{a: "+canary+"}"), reason.CredentialInvalid},
		{"profile and cloud", cloudKey("profile", canary, "cloud", canary), ok},
	}
	for value, want := range map[string]reason.Reason{
		"true": ok, "yes": ok, "on": ok, "1": ok, `"True"`: ok, `"1"`: ok, "null": ok, `"t"`: ok,
		"false": reason.CredentialInsecure, "no": reason.CredentialInsecure, "off": reason.CredentialInsecure, "False": reason.CredentialInsecure,
		`"False"`: reason.CredentialInsecure, `"false"`: reason.CredentialInsecure, "0": reason.CredentialInsecure, `"0"`: reason.CredentialInsecure,
		"0.0":  reason.CredentialInsecure,
		`"no"`: reason.CredentialInvalid, canary: reason.CredentialInvalid, `""`: reason.CredentialInvalid, "2": reason.CredentialInvalid,
		"[]": reason.CredentialInvalid, "{}": reason.CredentialInvalid, "[true]": reason.CredentialInvalid, "1.5": reason.CredentialInvalid,
		"/etc/ssl/ca.pem": reason.CredentialInvalid,
	} {
		cases = append(cases, parseCase{"A17 verify " + strings.ReplaceAll(value, "/", "-"), cloudKey("verify", value), want})
	}
	return cases
}

func manyClouds(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  c%d: {auth: {auth_url: 'https://%s/'}}\n", i, canary)
	}
	return b.String()
}

func TestHostileClouds(t *testing.T) {
	f := &fixture{secrets: []string{canary, "keystone.example.org"}}
	for _, c := range hostileFiles() {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			got, err := parseCredential([]byte(c.file), "default", "", false)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			if c.want != "" {
				f.checkProblem(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkAccepted(t, got)
		})
	}
}

// TestNoFilesAndNoEnvironment: what a file names is not opened, and what the operator's environment
// says is not taken (A17).
func TestNoFilesAndNoEnvironment(t *testing.T) {
	f := start(t)
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(other, []byte("clouds: {default: {auth: {auth_url: 'https://192.0.2.1/'}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"OS_CLOUD": "other", "OS_CLIENT_CONFIG_FILE": other, "OS_AUTH_URL": "https://192.0.2.1/v3", "OS_TOKEN": canary,
		"OS_USERNAME": "other", "OS_USER_ID": "other", "OS_PASSWORD": canary, "OS_PROJECT_ID": "other", "OS_PROJECT_NAME": "other",
		"OS_TENANT_ID": "other", "OS_TENANT_NAME": "other", "OS_DOMAIN_ID": "other", "OS_DOMAIN_NAME": "other",
		"OS_USER_DOMAIN_ID": "other", "OS_PROJECT_DOMAIN_ID": "other", "OS_SYSTEM_SCOPE": "all",
		"OS_APPLICATION_CREDENTIAL_ID": "other", "OS_APPLICATION_CREDENTIAL_SECRET": canary, "OS_APPLICATION_CREDENTIAL_NAME": "other",
		"OS_REGION_NAME": "other", "OS_INTERFACE": "admin", "OS_ENDPOINT_TYPE": "admin", "OS_IDENTITY_API_VERSION": "2",
		"OS_CACERT": fifo, "OS_CERT": fifo, "OS_KEY": fifo, "OS_INSECURE": "true",
	} {
		t.Setenv(name, value)
	}
	files := "    cacert: " + fifo + "\n    cert: " + fifo + "\n    key: " + fifo + "\n    profile: default\n    cloud: default\n"
	f.setClouds(f.credential.CloudsYAML() + files)
	f.wantHoldings(t, []string{"192.0.2.1"}, s1)
	for _, r := range f.sim.Requests() {
		if r.Interface != "public" || (r.Credential != f.credential.ID && r.Credential != "") {
			t.Errorf("%s: interface %s, credential %s", r.Path, r.Interface, r.Credential)
		}
	}
	// Whoever opens a FIFO to read waits for a writer; that nobody does is an error for a writer.
	if fd, err := syscall.Open(fifo, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = syscall.Close(fd)
		t.Error("a file that clouds.yaml names was opened")
	}
}
