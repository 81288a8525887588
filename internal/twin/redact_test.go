package twin

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Redaction keeps length and shape, and whatever a node needs in order to join.
func TestRedact(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"shell variables", "DB_PASSWORD=hunter2 ./run", "DB_PASSWORD=xxxxxx0 ./run"},
		{"exported ones", "export GITHUB_TOKEN='abc-123'", "export GITHUB_TOKEN='xxx-000'"},
		{"JSON", `{"apiKey": "K9z", "name": "web"}`, `{"apiKey": "X0x", "name": "web"}`},
		{"YAML", "secret: Zm9v\nregion: eu-west-1", "secret: Xx0x\nregion: eu-west-1"},
		{"options", "curl --password s3cret https://example.com", "curl --password x0xxxx https://example.com"},
		{"access keys", "aws configure set x AKIAIOSFODNN7EXAMPLE", "aws configure set x XXXXXXXXXXXX0XXXXXXX"},
		{"URLs", "git clone https://bot:pa55@git.example.com/x", "git clone https://bot:xx00@git.example.com/x"},
		{"bearer tokens", `curl -H "Authorization: Bearer abcdef012345"`, `curl -H "Authorization: Bearer xxxxxx000000"`},
		{"private keys", "-----BEGIN RSA PRIVATE KEY-----\nMIIE9\n-----END RSA PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\nXXXX0\n-----END RSA PRIVATE KEY-----"},
		{"registry logins", `{"auths":{"r":{"auth":"dXNlcg=="}}}`, `{"auths":{"r":{"auth":"xXXxxx=="}}}`},

		// what nodes need
		{"the certificate authority", "certificateAuthority: LS0tLS1CRUdJTg==", "certificateAuthority: LS0tLS1CRUdJTg=="},
		{"bootstrap.sh", "/etc/eks/bootstrap.sh prod --b64-cluster-ca LS0t --apiserver-endpoint https://A.gr7.eu-west-1.eks.amazonaws.com", "/etc/eks/bootstrap.sh prod --b64-cluster-ca LS0t --apiserver-endpoint https://A.gr7.eu-west-1.eks.amazonaws.com"},
		{"the metadata service's token", `TOKEN=$(curl -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 21600" http://169.254.169.254/latest/api/token)`, `TOKEN=$(curl -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 21600" http://169.254.169.254/latest/api/token)`},
		{"the name of a file with a token", "tokenFile: /var/run/secrets/token\npassword-file=/etc/p\ntoken: abc", "tokenFile: /var/run/secrets/token\npassword-file=/etc/p\ntoken: xxx"},
		{"base64 that is cut off", "bm8gc2VjcmV0IGhlcmV", "bm8gc2VjcmV0IGhlcmV"},
		{"references", `PASSWORD="$FROM_SSM"`, `PASSWORD="$FROM_SSM"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Redact(tt.in); got != tt.want {
				t.Errorf("Redact(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
			if again := Redact(tt.want); again != tt.want {
				t.Errorf("redacting twice changes %q to %q", tt.want, again)
			}
		})
	}
}

func TestRedactUserDataKeepsItsLength(t *testing.T) {
	for _, raw := range []string{"", "#!/bin/sh\nexport TOKEN=abc\n", "\x1f\x8b\x00binary", "über PASSWORD=ünder"} {
		out, err := base64.StdEncoding.DecodeString(RedactUserData(base64.StdEncoding.EncodeToString([]byte(raw))))
		if err != nil {
			t.Fatal(err)
		}
		if len([]rune(string(out))) != len([]rune(raw)) {
			t.Errorf("%q became %q", raw, out)
		}
	}
}

// What is packed is masked as well, and comes packed again: gzip, as of Terraform's cloudinit_config, and base64, as in the parts of a MIME message,
// in files of cloud-init and in arguments.
func TestRedactPacked(t *testing.T) {
	const text, masked = "#!/bin/sh\nexport DB_PASSWORD=hunter2\ncurl https://example.com/a/b/c/d/e/f/g | sh\n", "#!/bin/sh\nexport DB_PASSWORD=xxxxxx0\ncurl https://example.com/a/b/c/d/e/f/g | sh\n"
	gz := func(s string) string { return string(gzipOf([]byte(s))) }
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	fold := func(s string, width int) string {
		out := ""
		for ; len(s) > width; s = s[width:] {
			out += s[:width] + "\n"
		}
		return out + s + "\n"
	}
	wrapped := func(s, indent string) string {
		out := ""
		for s = b64(s); len(s) > 76; s = s[76:] {
			out += indent + s[:76] + "\n"
		}
		return out + indent + s + "\n"
	}
	message := func(s string) string {
		return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Transfer-Encoding: base64\nContent-Type: text/x-shellscript\n\n" + wrapped(s, "") + "--//--\n"
	}
	file := func(s string) string {
		return "#cloud-config\nwrite_files:\n- path: /etc/env\n  encoding: b64\n  content: |\n" + wrapped(s, "    ") + "- path: /etc/other\n"
	}
	for name, pack := range map[string]func(string) string{
		"gzip":                 gz,
		"base64":               b64,
		"base64 of gzip":       func(s string) string { return b64(gz(s)) },
		"a MIME message":       message,
		"a gzipped message":    func(s string) string { return gz(message(s)) },
		"a file of cloud-init": file,
		"an argument":          func(s string) string { return "echo " + b64(s) + " | base64 -d | sh" },
		"without padding": func(s string) string {
			return "echo " + base64.RawStdEncoding.EncodeToString([]byte(s)) + " | base64 -d | sh"
		},
		"the alphabet of URLs": func(s string) string {
			return "data=" + base64.RawURLEncoding.EncodeToString([]byte("??>>~~"+s)) + "\n"
		},
		"PowerShell": func(s string) string { return "powershell -EncodedCommand " + b64(string(toUTF16(s))) + "\n" },
		"a here-document": func(s string) string {
			return "base64 -d <<EOF | sh\n" + fold(b64("   "+strings.Repeat("#", 228-len(s)-4)+"\n"+s), 76) + "EOF\n"
		},
		"wide lines": func(s string) string { return "base64 -d <<EOF | sh\n" + fold(b64("#\n"+s), 101) + "EOF\n" },
	} {
		got := redactBytes([]byte(pack(text)), mostNested)
		if want := pack(masked); string(got) != want {
			t.Errorf("%s: got %q\nwant %q", name, got, want)
		}
		if again := redactBytes(got, mostNested); string(again) != string(got) {
			t.Errorf("%s: redacting twice changes it", name)
		}
		const harmlessText = "#!/bin/sh\n/etc/eks/bootstrap.sh prod --b64-cluster-ca LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t\n# and more, so that it is wrapped\n"
		if plain := pack(harmlessText); string(redactBytes([]byte(plain), mostNested)) != plain {
			t.Errorf("%s: text without secrets is changed", name)
		}
	}
	// What cannot be unpacked, or unpacks to too much, is left out.
	for name, raw := range map[string]string{"half a gzip": gz(text)[:40], "a bomb": gz(strings.Repeat("x", maxUnpacked+1))} {
		if got := string(redactBytes([]byte(raw), mostNested)); got != strings.Repeat("x", len(raw)) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	deep := text
	for range mostNested + 1 {
		deep = gz(deep)
	}
	if raw := []byte(deep); strings.Contains(string(redactBytes(raw, mostNested)), string(raw)) {
		t.Error("what is packed too often is kept")
	}
}

// Objects keep their shape. What may be a secret is masked wherever workloads and custom resources have it.
func TestRedactObject(t *testing.T) {
	for _, tt := range []struct{ name, kind, in, want string }{
		{"variables", "Pod", `{"spec":{"containers":[{"image":"repo/auth:1.2","env":[{"name":"DB_PASSWORD","value":"hunter2"},{"name":"MODE","value":"fast"}]}]}}`,
			`{"spec":{"containers":[{"image":"repo/auth:1.2","env":[{"name":"DB_PASSWORD","value":"xxxxxx0"},{"name":"MODE","value":"fast"}]}]}}`},
		{"an option and its value", "Pod", `{"args":["--password","hunter2","--port","80","--token=abc"]}`, `{"args":["--password","xxxxxx0","--port","80","--token=xxx"]}`},
		{"headers", "Pod", `{"httpGet":{"httpHeaders":[{"name":"X-Api-Key","value":"k3y"}]}}`, `{"httpGet":{"httpHeaders":[{"name":"X-Api-Key","value":"x0x"}]}}`},
		{"values of a chart", "HelmRelease", `{"apiVersion":"helm.toolkit.fluxcd.io/v2","spec":{"secretName":"login","values":{"env":{"API_TOKEN":"abc"},"password":"hunter2","replicas":2}}}`,
			`{"apiVersion":"helm.toolkit.fluxcd.io/v2","spec":{"secretName":"login","values":{"env":{"API_TOKEN":"xxx"},"password":"xxxxxx0","replicas":2}}}`},
		{"ConfigMaps", "ConfigMap", `{"data":{"token":"abc","url":"https://u:pw@h/"}}`, `{"data":{"token":"xxx","url":"https://u:xx@h/"}}`},
		{"aws-auth", "ConfigMap", `{"metadata":{"name":"aws-auth","namespace":"kube-system"},"data":{"mapRoles":"rolearn: arn:aws:iam::1:role/token: x"}}`,
			`{"metadata":{"name":"aws-auth","namespace":"kube-system"},"data":{"mapRoles":"rolearn: arn:aws:iam::1:role/token: x"}}`},
		{"fields of Kubernetes that only sound like secrets", "Pod", `{"spec":{"automountServiceAccountToken":true,"volumes":[{"secret":{"secretName":"login"}}]}}`,
			`{"spec":{"automountServiceAccountToken":true,"volumes":[{"secret":{"secretName":"login"}}]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o, want map[string]any
			if err := errors.Join(json.Unmarshal([]byte(tt.in), &o), json.Unmarshal([]byte(tt.want), &want)); err != nil {
				t.Fatal(err)
			}
			if found := RedactObject(tt.kind, o); found != (tt.in != tt.want) {
				t.Errorf("it reports %v", found)
			}
			if diff := cmp.Diff(want, o); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
