package ami

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
)

// mirror returns the package manager's first URL. http://nopipi.hatenablog.com/entry/2018/09/10/173000 names Amazon
// Linux 2's bucket; that of Amazon Linux 2023 and the paths are from memory.
func (m *Machine) mirror() string {
	if m.In.Image.Family == images.AL2 {
		return "https://" + Mirror(m.In) + "/2/core/latest/" + m.architecture() + "/mirror.list"
	}
	return "https://" + Mirror(m.In) + "/core/mirrors/latest/" + m.architecture() + "/mirror.list"
}

// Mirror returns the host from which an instance's package manager downloads.
func Mirror(in machine.Instance) string {
	if in.Image.Family == images.AL2 {
		return fmt.Sprintf("amazonlinux-2-repos-%s.s3.dualstack.%s.amazonaws.com", in.Region, in.Region)
	}
	return fmt.Sprintf("al2023-repos-%s-de612dc2.s3.dualstack.%s.amazonaws.com", in.Region, in.Region)
}

// reachMirror contacts the repository, and reports in curl's words if it cannot be reached. Any answer will do,
// because the AWS API server has no S3.
func (m *Machine) reachMirror(ctx context.Context) (code int, text string, ok bool) {
	target := m.mirror()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 3, err.Error(), false
	}
	resp, err := m.roundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // the content does not matter
		_ = resp.Body.Close()
		return 0, "", true
	}
	u, _ := url.Parse(target) // it was parsed above
	code, text = curlError(err, u)
	return code, text, false
}

// fetch downloads what a package manager is to install from a URL.
func (m *Machine) fetch(ctx context.Context, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return errors.New("(3) URL using bad/illegal format or missing URL")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	resp, err := m.roundTrip(req)
	if err != nil {
		code, text := curlError(err, u)
		return fmt.Errorf("(%d) %s", code, text)
	}
	_ = resp.Body.Close() // only the route matters
	if resp.StatusCode >= 400 && !strings.HasSuffix(u.Hostname(), ".amazonaws.com") {
		return fmt.Errorf("(22) The requested URL returned error: %d", resp.StatusCode)
	}
	return nil
}
