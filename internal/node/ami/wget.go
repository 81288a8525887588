package ami

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// Exit statuses of wget.
// https://www.gnu.org/software/wget/manual/html_node/Exit-Status.html
const (
	wgetUsage   = 2
	wgetFile    = 3
	wgetNetwork = 4
	wgetServer  = 8
)

// wget downloads one URL. It supports -q, -O, -T, --header, --method and --post-data.
func (m *Machine) wget(ctx context.Context, c *shell.Call) int {
	var target, out, method, body string
	quiet := false
	header := http.Header{"User-Agent": {"Wget/1.21.3"}}
	args := c.Args[1:]
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if strings.HasPrefix(args[i], "-q") && !strings.HasPrefix(args[i], "--") {
			quiet = true
			if name = "-" + args[i][2:]; name == "-" {
				continue
			}
			given = false
		}
		if strings.HasPrefix(name, "-O") && len(name) > 2 {
			name, value, given = "-O", name[2:], true
		}
		take := func() string {
			if !given && i+1 < len(args) {
				i++
				return args[i]
			}
			return value
		}
		switch name {
		case "--quiet", "-nv", "--no-verbose":
			quiet = true
		case "-O", "--output-document":
			out = take()
		case "--header":
			k, v, _ := strings.Cut(take(), ":")
			header.Add(strings.TrimSpace(k), strings.TrimSpace(v))
		case "--method":
			method = take()
		case "--post-data", "--body-data":
			body = take()
			if name == "--post-data" {
				method = http.MethodPost
			}
		case "-T", "--timeout", "--connect-timeout", "--read-timeout":
			if d, err := time.ParseDuration(take() + "s"); err == nil && d > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, d)
				defer cancel()
			}
		case "-t", "--tries", "--waitretry", "-w", "--wait":
			take()
		case "-c", "-N", "--no-check-certificate", "--no-proxy", "--show-progress", "-S":
		default:
			if strings.HasPrefix(name, "-") {
				fmt.Fprintf(c.Stderr, "wget: unrecognized option '%s'\nUsage: wget [OPTION]... [URL]...\n\nTry `wget --help' for more options.\n", name)
				return wgetUsage
			}
			target = args[i]
		}
	}
	if target != "" && !strings.Contains(target, "://") {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		fmt.Fprintln(c.Stderr, "wget: missing URL\nUsage: wget [OPTION]... [URL]...\n\nTry `wget --help' for more options.")
		return wgetUsage
	}
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return c.Fail("%s", err)
	}
	req.Header = header
	resp, err := (&http.Client{Transport: roundTripper(m.roundTrip)}).Do(req)
	if err != nil {
		if code, text := curlError(err, u); code == 6 && !quiet {
			fmt.Fprintf(c.Stderr, "wget: unable to resolve host address ‘%s’\n", u.Hostname())
		} else if !quiet {
			fmt.Fprintf(c.Stderr, "%s\n", text[max(0, strings.LastIndex(text, ": ")+2):])
		}
		return wgetNetwork
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		if !quiet {
			fmt.Fprintf(c.Stderr, "ERROR %d: %s.\n", resp.StatusCode, http.StatusText(resp.StatusCode))
		}
		return wgetServer
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = errors.New("the file is too large")
	}
	if err != nil {
		return wgetNetwork
	}
	if out == "-" {
		_, err = c.Stdout.Write(b)
	} else {
		if out == "" {
			if out = path.Base(u.Path); out == "/" || out == "." {
				out = "index.html"
			}
		}
		var f io.WriteCloser
		if f, err = c.FS.Open(c.Path(out), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644); err == nil {
			if _, err = f.Write(b); err == nil {
				err = f.Close()
			}
		}
	}
	if err != nil {
		reason := err.Error()
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			reason = pe.Err.Error()
		}
		fmt.Fprintf(c.Stderr, "%s: %s\n", out, strings.ToUpper(reason[:1])+reason[1:])
		return wgetFile
	}
	return 0
}
