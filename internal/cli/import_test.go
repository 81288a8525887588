package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A profile whose role requires MFA asks for the code, once. Credentials are not printed.
func TestImportWithMFA(t *testing.T) {
	home := t.TempDir()
	assumed := 0
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("Action") {
		case "AssumeRole":
			assumed++
			if r.FormValue("SerialNumber") != "arn:aws:iam::111122223333:mfa/jane" || r.FormValue("TokenCode") != "123456" || r.FormValue("DurationSeconds") != "3600" || r.FormValue("RoleArn") != "arn:aws:iam::111122223333:role/auditor" {
				t.Errorf("assumed with %v", r.Form)
			}
			fmt.Fprint(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAX</AccessKeyId><SecretAccessKey>lent-secret</SecretAccessKey><SessionToken>lent-token</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`)
		default: // asked with the role's credentials
			if r.Header.Get("X-Amz-Security-Token") != "lent-token" {
				t.Errorf("%s without the role's credentials", r.FormValue("Action"))
			}
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`)
		}
	}))
	defer sts.Close()
	files := map[string]string{
		"config":      "[profile prod]\nregion = eu-west-1\nrole_arn = arn:aws:iam::111122223333:role/auditor\nsource_profile = jane\nmfa_serial = arn:aws:iam::111122223333:mfa/jane\n",
		"credentials": "[jane]\naws_access_key_id = AKIAX\naws_secret_access_key = own-secret\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": filepath.Join(home, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, "credentials"), "AWS_ENDPOINT_URL_STS": sts.URL,
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"--data-dir", home, "import", "--profile", "prod", "--record", filepath.Join(home, "recording")}, Streams{In: strings.NewReader("123456\n"), Out: &out, Err: &errs}, Config{})
	if code == 0 || assumed != 1 || !strings.Contains(errs.String(), "MFA code of arn:aws:iam::111122223333:mfa/jane: ") || !strings.Contains(errs.String(), "AccessDenied") || !strings.Contains(errs.String(), "Try: aws sts get-caller-identity --profile prod") {
		t.Errorf("code %d, assumed %d times: %s", code, assumed, &errs)
	}
	if all := out.String() + errs.String(); strings.Contains(all, "own-secret") || strings.Contains(all, "lent-") {
		t.Errorf("credentials are printed: %s", all)
	}
}
