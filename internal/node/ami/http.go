package ami

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/awscli"
	"github.com/drydock-dev/drydock/internal/machine/guest/cfnbootstrap"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// maxAnswer bounds what a program downloads.
const maxAnswer = 4 << 20

const metadataHost = "169.254.169.254"

// roundTrip sends a request to the metadata service or through the network.
func (m *Machine) roundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Hostname() == metadataHost {
		return m.world.Metadata.RoundTrip(req)
	}
	if m.world.HTTP == nil {
		return nil, &net.DNSError{Err: "no such host", Name: req.URL.Hostname(), IsNotFound: true}
	}
	return m.world.HTTP.RoundTrip(req)
}

// Programs are the names of the image's programs beyond the shell's own.
func (m *Machine) Programs() []string {
	if m.In.Image.Family == images.Bottlerocket {
		out := []string{bottlerocketAPI}
		for _, names := range bottlerocketPrograms {
			out = append(out, names...)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	out := []string{"systemctl", "service", "journalctl", "curl", "wget", "imds", "aws"}
	out = append(out, cfnbootstrap.Programs...)
	if m.In.Image.KubeletVersion != "" {
		out = append(out, "kubelet")
		if m.In.Image.Family == images.AL2 {
			out = append(out, "aws-iam-authenticator")
		}
	}
	if m.world.Kubectl != nil {
		out = append(out, "kubectl")
	}
	if m.In.Image.Family == images.AL2023 {
		out = append(out, "nodeadm")
	}
	for name := range inspectors {
		if m.inspector(name) != nil && name != "getent" { // the shell has its own
			out = append(out, name)
		}
	}
	for _, name := range []string{"yum", "dnf", "rpm", "amazon-linux-extras"} {
		if m.packageManager(name) != nil {
			out = append(out, name)
		}
	}
	return out
}

// curl supports the options that user data uses: -s -S -f -L -k -i -v -o -O -X -H -d -T -m --connect-timeout --retry.
func (m *Machine) curl(ctx context.Context, c *shell.Call) int {
	var (
		target, method, out, data       string
		headers                         = http.Header{}
		silent, showError, fail, follow bool
		include, remoteName, hasData    bool
		insecure                        bool
		writeOut                        string
		timeout                         = time.Duration(0)
	)
	args := c.Args[1:]
	var letters []string // from combined short options, which come first
	usage := func(opt string) int {
		fmt.Fprintf(c.Stderr, "curl: option %s: is unknown\ncurl: try 'curl --help' or 'curl --manual' for more information\n", opt)
		return 2
	}
	take := func() string {
		from := &args
		if len(letters) > 0 {
			from = &letters
		}
		if len(*from) == 0 {
			return ""
		}
		v := (*from)[0]
		*from = (*from)[1:]
		return v
	}
	for len(letters)+len(args) > 0 {
		a := take()
		name, value, glued := a, "", false
		switch {
		case strings.HasPrefix(a, "--"):
		case strings.HasPrefix(a, "-") && len(a) > 2 && strings.ContainsRune("oXHdmw", rune(a[1])):
			name, value, glued = a[:2], a[2:], true
		case strings.HasPrefix(a, "-") && len(a) > 2: // -fsSLo FILE
			letters = spread(a[1:])
			continue
		}
		arg := func() string {
			if glued {
				return value
			}
			return take()
		}
		switch name {
		case "-s", "--silent":
			silent = true
		case "-S", "--show-error":
			showError = true
		case "-f", "--fail":
			fail = true
		case "-L", "--location":
			follow = true
		case "-i", "--include":
			include = true
		case "-O", "--remote-name":
			remoteName = true
		case "-k", "--insecure":
			insecure = true
		case "-v", "--verbose", "-4", "-g", "--compressed", "--retry-connrefused", "-#":
		case "-o", "--output":
			out = arg()
		case "-X", "--request":
			method = arg()
		case "-H", "--header":
			k, v, _ := strings.Cut(arg(), ":")
			headers.Add(strings.TrimSpace(k), strings.TrimSpace(v))
		case "-d", "--data", "--data-raw", "--data-binary":
			data, hasData = arg(), true
			if name, ok := strings.CutPrefix(data, "@"); ok && a != "--data-raw" {
				b, err := c.FS.ReadFile(c.Path(name))
				if err != nil {
					return curlFail(c, silent, showError, 26, "Failed to open "+name)
				}
				data = string(b)
			}
		case "-T", "--upload-file":
			name := arg()
			b, err := c.FS.ReadFile(c.Path(name))
			if err != nil {
				return curlFail(c, silent, showError, 26, "Failed to open "+name)
			}
			data, hasData = string(b), true
			if method == "" {
				method = http.MethodPut
			}
		case "-w", "--write-out":
			writeOut = arg()
		case "-m", "--max-time", "--connect-timeout":
			if s, err := strconv.ParseFloat(arg(), 64); err == nil && s > 0 && s < 1e6 {
				timeout = time.Duration(s * float64(time.Second))
			}
		case "--retry", "--retry-delay", "--retry-max-time":
			take()
		default:
			if strings.HasPrefix(a, "-") && a != "-" {
				return usage(a)
			}
			target = a
		}
	}
	if target == "" {
		fmt.Fprintln(c.Stderr, "curl: no URL specified!\ncurl: try 'curl --help' or 'curl --manual' for more information")
		return 2
	}
	if !strings.Contains(target, "://") {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return curlFail(c, silent, showError, 3, "URL using bad/illegal format or missing URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return curlFail(c, silent, showError, 1, "Protocol "+u.Scheme+" not supported")
	}
	if method == "" {
		method = http.MethodGet
		if hasData {
			method = http.MethodPost
		}
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(data))
	if err != nil {
		return curlFail(c, silent, showError, 3, err.Error())
	}
	req.Header = headers
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "curl/8.5.0")
	}
	transport := http.RoundTripper(roundTripper(m.roundTrip))
	if insecure && u.Scheme == "https" && m.world.Dial != nil {
		transport = m.insecure()
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if follow {
		client.CheckRedirect = nil
	}
	resp, err := client.Do(req)
	if err != nil {
		code, text := curlError(err, u)
		return curlFail(c, silent, showError, code, text)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return curlFail(c, silent, showError, 56, "Recv failure: Connection reset by peer")
	}
	if len(body) > maxAnswer {
		return curlFail(c, silent, showError, 63, "Maximum file size exceeded")
	}
	if fail && resp.StatusCode >= 400 {
		return curlFail(c, silent, showError, 22, fmt.Sprintf("The requested URL returned error: %d", resp.StatusCode))
	}
	if remoteName {
		out = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	}
	if include {
		_, _ = fmt.Fprintf(c.Stdout, "HTTP/1.1 %s\r\n\r\n", resp.Status)
	}
	if out != "" && out != "-" {
		f, err := c.FS.Open(c.Path(out), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.Write(body)
		}
		if err != nil {
			return curlFail(c, silent, showError, 23, "Failure writing output to destination")
		}
	} else if _, err := c.Stdout.Write(body); err != nil {
		return 23
	}
	if writeOut != "" {
		_, _ = io.WriteString(c.Stdout, strings.NewReplacer("%{http_code}", strconv.Itoa(resp.StatusCode), `\n`, "\n").Replace(writeOut))
	}
	return 0
}

// insecure returns a way to send requests to hosts whose certificates are not checked.
func (m *Machine) insecure() http.RoundTripper {
	return &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the user of the machine wants it
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, p, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			port, err := strconv.Atoi(p)
			if err != nil {
				return nil, err
			}
			return m.world.Dial(ctx, host, port)
		},
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// spread splits fsSLo into -f -s -S -L -o.
func spread(letters string) []string {
	var out []string
	for _, l := range letters {
		out = append(out, "-"+string(l))
	}
	return out
}

func curlFail(c *shell.Call, silent, showError bool, code int, text string) int {
	if !silent || showError {
		fmt.Fprintf(c.Stderr, "curl: (%d) %s\n", code, text)
	}
	return code
}

// curlError returns curl's message for an error and its exit status.
// https://everything.curl.dev/cmdline/exitcode.html
func curlError(err error, u *url.URL) (int, string) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if de, ok := errors.AsType[*net.DNSError](err); ok && !de.IsTimeout {
		return 6, "Could not resolve host: " + u.Hostname()
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return 28, fmt.Sprintf("Failed to connect to %s port %s: Connection timed out", u.Hostname(), port)
	}
	if errors.Is(err, io.EOF) {
		return 52, "Empty reply from server"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return 60, "SSL certificate problem: unable to get local issuer certificate\nMore details here: https://curl.se/docs/sslcerts.html"
	}
	return 7, fmt.Sprintf("Failed to connect to %s port %s: %s", u.Hostname(), port, "Connection refused")
}

// aws is the AWS CLI, which calls as the instance's role.
func (m *Machine) aws(ctx context.Context, c *shell.Call) int {
	cli := &awscli.CLI{Metadata: m.world.Metadata, HTTP: roundTripper(m.roundTrip), Now: m.world.Clock.Now, Wait: m.wait}
	return cli.Run(ctx, c)
}

// imds is the helper program of EKS images that queries the metadata service with version 2.
func (m *Machine) imds(ctx context.Context, c *shell.Call) int {
	if len(c.Args) != 2 {
		return c.Fail("usage: imds token|<path>")
	}
	token, err := m.metadata(ctx, http.MethodPut, "latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "900")
	if err == nil && c.Args[1] != "token" {
		token, err = m.metadata(ctx, http.MethodGet, strings.TrimPrefix(c.Args[1], "/"), "X-aws-ec2-metadata-token", token)
	}
	if err != nil {
		return c.Fail("%s", err)
	}
	fmt.Fprintln(c.Stdout, token)
	return 0
}

func (m *Machine) metadata(ctx context.Context, method, name, header, value string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+metadataHost+"/"+name, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set(header, value)
	resp, err := m.world.Metadata.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", name, resp.Status)
	}
	return string(b), err
}

// cfn runs the programs of aws-cfn-bootstrap.
func (m *Machine) cfn(ctx context.Context, c *shell.Call) int {
	tools := &cfnbootstrap.Tools{Metadata: m.world.Metadata, HTTP: roundTripper(m.roundTrip), Now: m.world.Clock.Now, Wait: m.wait}
	return tools.Run(ctx, c)
}
