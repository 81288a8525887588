// Package cfnbootstrap implements cfn-signal and cfn-get-metadata, which are programs of aws-cfn-bootstrap, for simulated
// machines. Without credentials they authenticate by the instance's identity document, as the real programs do. The
// other programs of aws-cfn-bootstrap report that they are not supported.
//
// The behavior and the messages are those of version 2.0. May be imported by packages that run or test
// simulated machines.
package cfnbootstrap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/imds"
)

// Programs are the names of the programs, which are in /opt/aws/bin.
var Programs = []string{"cfn-signal", "cfn-get-metadata", "cfn-init", "cfn-hup", "cfn-elect-cmd-leader", "cfn-send-cmd-event", "cfn-send-cmd-result"}

// Tools are the programs on one machine.
type Tools struct {
	// Metadata connects to the metadata service, HTTP to everything else.
	Metadata, HTTP http.RoundTripper
	Now            func() time.Time
	// Wait sleeps between two attempts. It returns false if the program must end.
	Wait func(ctx context.Context, d time.Duration) bool
}

const (
	// tries is how many times a program sends a request, and maxSleep is the longest pause between two attempts.
	tries    = 5
	maxSleep = 20 * time.Second
	// timeout is how long one attempt may take.
	timeout = time.Minute
	// maxAnswer is how many bytes of an answer are read.
	maxAnswer     = 1 << 20
	defaultRegion = "us-east-1"
)

// A run is one run of a program.
type run struct {
	*Tools
	*shell.Call
	options map[string]string
}

// Run runs the program that c.Args names and returns its exit status.
func (t *Tools) Run(ctx context.Context, c *shell.Call) int {
	name, known := path.Base(c.Args[0]), metadataOptions
	switch name {
	case "cfn-signal":
		known = signalOptions
	case "cfn-get-metadata":
	default:
		fmt.Fprintf(c.Stderr, "Error: %s is not supported on simulated nodes; cfn-signal and cfn-get-metadata are\n", name)
		return 1
	}
	options, rest, err := parse(c.Args, known)
	r := &run{t, c, options}
	switch {
	case err != nil:
	case options["help"] != "":
		fmt.Fprintf(c.Stdout, "Usage: %s [options]\n", name)
		return 0
	case name == "cfn-get-metadata":
		err = r.metadata(ctx)
	default:
		err = r.signal(ctx, rest)
	}
	if err != nil {
		fmt.Fprintln(c.Stderr, err)
		if _, ok := errors.AsType[*usageError](err); ok {
			return 2
		}
		return 1
	}
	return 0
}

// signal sends a signal to a resource, or to a wait condition by its handle's URL.
func (r *run) signal(ctx context.Context, args []string) error {
	success, ok := r.options["success"]
	if ok && success != "true" && success != "false" {
		return &usageError{"cfn-signal", fmt.Sprintf("option -s: invalid choice: '%s' (choose from 'true', 'false')", success)}
	}
	code := 0
	if text, ok := r.options["exit-code"]; ok {
		var err error
		if code, err = strconv.Atoi(text); err != nil {
			return &usageError{"cfn-signal", fmt.Sprintf("option -e: invalid integer value: '%s'", text)}
		}
	}
	status := "SUCCESS"
	if code != 0 || success == "false" {
		status = "FAILURE"
	}
	id := r.options["id"]
	if id == "" {
		b, err := imds.Client{Transport: r.Metadata}.Get(ctx, "meta-data/instance-id")
		if err != nil {
			return err
		}
		id = string(b)
	}
	resource, isResource := r.options["resource"]
	switch {
	case len(args) > 0 && args[0] != "" && isResource:
		return errors.New("Error: Cannot specify both a WaitConditionHandle URL and a logical resource id") //nolint:staticcheck // the program's text
	case len(args) > 0 && args[0] != "":
		return r.signalHandle(ctx, args[0], status, id)
	case !isResource:
		return errors.New("Error: No WaitConditionHandle URL or logical resource id specified") //nolint:staticcheck // the program's text
	case r.options["stack"] == "":
		return errors.New("Error: You must specify a stack name when signaling a resource") //nolint:staticcheck // the program's text
	}
	_, err := r.call(ctx, "SignalResource", map[string]string{"LogicalResourceId": resource, "StackName": r.options["stack"], "UniqueId": id, "Status": status})
	return unknownError(err, "signaling "+resource)
}

// unknownError replaces an error that has no text.
func unknownError(err error, what string) error {
	if err != nil && err.Error() == "" {
		return errors.New("Unknown error " + what) //nolint:staticcheck // the program's text
	}
	return err
}

// signalHandle puts a signal at the URL of a wait condition's handle, which may be in base64.
func (r *run) signalHandle(ctx context.Context, target, status, id string) error {
	invalid := fmt.Errorf("Error: Invalid WaitConditionHandle URL specified: %s", target) //nolint:staticcheck // the program's text
	isURL := func(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }
	if !isURL(target) {
		b, err := base64.StdEncoding.DecodeString(target)
		if err != nil || !isURL(string(b)) {
			return invalid
		}
		target = string(b)
	}
	reason := r.options["reason"]
	if reason == "" && status == "FAILURE" {
		reason = "Configuration failed."
	}
	body, err := json.Marshal(struct{ Status, Reason, Data, UniqueId string }{status, reason, r.options["data"], id}) //nolint:staticcheck // AWS's names
	if err != nil {
		return err
	}
	_, err = r.send(ctx, func() (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(body))
	}, func(status int, answer []byte) error {
		return &remoteError{code: strconv.Itoa(status), text: fmt.Sprintf("HTTP Error %d : %s", status, answer), final: status < 500 && status != 404 && status != 408}
	})
	if e, ok := errors.AsType[*remoteError](err); ok {
		return fmt.Errorf("Error signaling CloudFormation: [Errno %s] %s", e.code, e.text) //nolint:staticcheck // the program's text
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Stdout, "CloudFormation signaled successfully with %s.\n", status)
	return nil
}

// metadata prints the metadata of a resource, or the part that --key names.
func (r *run) metadata(ctx context.Context) error {
	stack, resource, key := r.options["stack"], r.options["resource"], r.options["key"]
	if stack == "" || resource == "" {
		return errors.New("Error: You must specify both a stack name and logical resource id") //nolint:staticcheck // the program's text
	}
	b, err := r.call(ctx, "DescribeStackResource", map[string]string{"LogicalResourceId": resource, "StackName": stack})
	if err != nil {
		return unknownError(err, "retrieving "+resource)
	}
	var answer struct {
		DescribeStackResourceResponse struct {
			DescribeStackResourceResult struct {
				StackResourceDetail struct{ LogicalResourceID, Metadata string }
			}
		}
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return err
	}
	detail := answer.DescribeStackResourceResponse.DescribeStackResourceResult.StackResourceDetail
	var value any
	if err := json.Unmarshal([]byte(detail.Metadata), &value); err != nil || fmt.Sprint(value) == "map[]" {
		return fmt.Errorf("Error: %s does not specify any metadata", resource) //nolint:staticcheck // the program's text
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(key, `\.`, "\x00"), ".") {
		if key == "" {
			break
		}
		m, _ := value.(map[string]any)
		var ok bool
		if value, ok = m[strings.ReplaceAll(part, "\x00", ".")]; !ok {
			return fmt.Errorf("Error: %s is not present in the metadata for %s", key, resource) //nolint:staticcheck // the program's text
		}
	}
	if text, ok := value.(string); ok {
		fmt.Fprintln(r.Stdout, text)
		return nil
	}
	enc := json.NewEncoder(r.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	return enc.Encode(value)
}

// call calls an operation of CloudFormation and returns the answer as JSON.
func (r *run) call(ctx context.Context, operation string, parameters map[string]string) ([]byte, error) {
	region := r.options["region"]
	if region == "" {
		region = defaultRegion
	}
	target := r.options["url"]
	if target == "" {
		target = "https://cloudformation." + region + ".amazonaws.com"
	}
	u, err := url.Parse(strings.TrimSuffix(target, "/") + "/")
	if err != nil {
		return nil, err
	}
	form := url.Values{"Action": {operation}, "ContentType": {"JSON"}, "Version": {"2010-05-15"}}
	for k, v := range parameters {
		form.Set(k, v)
	}
	u.RawQuery = strings.ReplaceAll(form.Encode(), "+", "%20")
	credentials, err := r.credentials(ctx)
	if err != nil {
		return nil, err
	}
	return r.send(ctx, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("User-Agent", "CloudFormation Tools")
		return req, r.sign(ctx, req, credentials, region)
	}, func(status int, answer []byte) error {
		var e struct {
			Error struct{ Code, Message, Type string }
		}
		if json.Unmarshal(answer, &e) != nil || e.Error.Code == "" {
			e.Error.Code, e.Error.Type, e.Error.Message = "Unknown", "Receiver", string(answer)
		}
		forever := status == http.StatusServiceUnavailable || slices.Contains([]string{"Throttling", "InvalidAccessKeyId", "InvalidClientTokenId"}, e.Error.Code)
		return &remoteError{text: e.Error.Code + ": " + e.Error.Message, final: !forever && e.Error.Type == "Sender"}
	})
}

// credentials returns the credentials that the options name, or none.
func (r *run) credentials(ctx context.Context) (*aws.Credentials, error) {
	switch {
	case r.options["credential-file"] != "":
		b, err := r.FS.ReadFile(r.Path(r.options["credential-file"]))
		if err != nil {
			return nil, fmt.Errorf("Error retrieving credentials from file:\n\tCredential file was not found at %s", r.options["credential-file"]) //nolint:staticcheck // the program's text
		}
		var out aws.Credentials
		for line := range strings.Lines(string(b)) {
			switch k, v, _ := strings.Cut(strings.TrimSpace(line), "="); k {
			case "AWSAccessKeyId":
				out.AccessKeyID = v
			case "AWSSecretKey":
				out.SecretAccessKey = v
			}
		}
		if out.AccessKeyID == "" || out.SecretAccessKey == "" {
			return nil, errors.New("Error retrieving credentials from file:\n\tCredential file must contain the keys 'AWSAccessKeyId' and 'AWSSecretKey'") //nolint:staticcheck // the program's text
		}
		return &out, nil
	case r.options["role"] != "":
		c, err := imds.Client{Transport: r.Metadata}.Credentials(ctx)
		if err != nil {
			return nil, fmt.Errorf("HTTP Error 404 : %w", err)
		}
		return &aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}, nil
	case r.options["access-key"] != "":
		return &aws.Credentials{AccessKeyID: r.options["access-key"], SecretAccessKey: r.options["secret-key"]}, nil
	}
	return nil, nil
}

// sign signs a request with the given credentials. If credentials is nil, it uses the instance's identity document.
func (r *run) sign(ctx context.Context, req *http.Request, credentials *aws.Credentials, region string) error {
	if credentials != nil {
		sum := sha256.Sum256(nil)
		return v4.NewSigner().SignHTTP(ctx, *credentials, req, hex.EncodeToString(sum[:]), "cloudformation", region, r.Now())
	}
	const dir = "dynamic/instance-identity/"
	document, err := imds.Client{Transport: r.Metadata}.Get(ctx, dir+"document")
	if err != nil {
		return err
	}
	signature, err := imds.Client{Transport: r.Metadata}.Get(ctx, dir+"signature")
	if err != nil {
		return err
	}
	document = bytes.TrimRight(document, " \r\n\t")
	req.Header.Set("Authorization", "CFN_V1 "+base64.StdEncoding.EncodeToString(document)+":"+strings.ReplaceAll(string(signature), "\n", ""))
	return nil
}

// A remoteError is the error of a request, in the program's words. It is final if another attempt would fail as well.
type remoteError struct {
	code, text string
	final      bool
	cause      error // for callers that need the underlying error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.cause }

// send sends a request until it succeeds or must not be retried, and returns the answer. refused returns the error for
// an answer that is one.
func (r *run) send(ctx context.Context, request func() (*http.Request, error), refused func(status int, answer []byte) error) ([]byte, error) {
	for try := 0; ; try++ {
		req, err := request()
		if err != nil {
			return nil, err
		}
		answer, err := r.attempt(ctx, req, refused)
		e, ok := errors.AsType[*remoteError](err)
		if !ok || e.final || try == tries-1 {
			return answer, err
		}
		pause := time.Duration(rand.Float64() * float64(min(maxSleep, (1<<(try+1)-1)*time.Second))) //nolint:gosec // not a secret
		if !r.Wait(ctx, pause) {
			return nil, err
		}
	}
}

func (r *run) attempt(ctx context.Context, req *http.Request, refused func(int, []byte) error) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := r.HTTP.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, &remoteError{code: "None", text: networkText(err, req.URL), cause: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, &remoteError{code: "None", text: networkText(err, req.URL), cause: err}
	case resp.StatusCode >= 400:
		return nil, refused(resp.StatusCode, answer)
	}
	return answer, nil
}

// networkText returns the programs' text for a network error. It is empty for a timeout, because the programs then end
// with an exception without a text.
func networkText(err error, u *url.URL) string {
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	why := "[Errno 111] Connection refused"
	if de, ok := errors.AsType[*net.DNSError](err); ok && de.IsNotFound {
		why = "[Errno -2] Name or service not known"
	}
	return fmt.Sprintf("HTTPSConnectionPool(host='%s', port=443): Max retries exceeded with url: %s (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f3c5e1d2b50>: Failed to establish a new connection: %s'))",
		u.Hostname(), u.RequestURI(), why)
}
