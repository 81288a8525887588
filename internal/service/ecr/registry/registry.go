// Package registry lets registry clients such as docker push and pull images: the OCI distribution protocol in front
// of ECR's operations.
//
// A client logs in with the password of GetAuthorizationToken. Each of its requests becomes the calls that ECR makes
// for it (BatchGetImage, GetDownloadUrlForLayer, InitiateLayerUpload, …), as the principal that got the token. So the
// same policies apply as for the API, CloudTrail records the calls, and DescribeImages shows pushed images at once.
//
// The package also serves the public registries of Amazon ECR Public. Anyone may read them; requests that change them
// become calls to ECR Public (public.go).
//
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md
package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/service/ecr"
)

// Config is what a registry needs.
type Config struct {
	API    awsapi.API
	ECR    *ecr.Service
	Images *imagestore.Store
	// Public has the public registries. It may be nil.
	Public Public
	// Origin returns the VPC endpoint and the address of a guest's connection. Nil means that there are no guests.
	Origin func(remote string) (awsapi.VPCEndpoint, netip.Addr)
	// Hosts are the names that the user has given this machine.
	Hosts []string
	Clock clock.PassiveClock
	Log   *slog.Logger
}

// A Registry serves the registries of all accounts in all regions. It is an http.Handler.
type Registry struct{ cfg Config }

// New returns a Registry.
func New(cfg Config) *Registry { return &Registry{cfg} }

// hostForm matches the host of a private registry.
var hostForm = regexp.MustCompile(`^([0-9]{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com|on\.aws|localhost)$`)

// layerHost matches the hosts that serve layers.
var layerHost = regexp.MustCompile(`^prod-[a-z0-9-]+-starport-layer-bucket\.s3\.[a-z0-9-]+\.amazonaws\.com$`)

// Serves reports whether a request is for a registry. If the host is an address or one of the user's own names, the
// path decides: the API has no paths under /v2, because v2 is too short for the name of a bucket.
func (g *Registry) Serves(r *http.Request) bool {
	host := hostname(r.Host)
	if hostForm.MatchString(host) || layerHost.MatchString(host) || host == publicHost {
		return true
	}
	_, err := netip.ParseAddr(host)
	return (err == nil || host == "localhost" || slices.Contains(g.cfg.Hosts, host)) && (r.URL.Path == "/v2" || strings.HasPrefix(r.URL.Path, "/v2/"))
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return strings.ToLower(name)
	}
	return strings.ToLower(host)
}

// An exchange is one request with its response.
type exchange struct {
	*Registry
	w http.ResponseWriter
	r *http.Request
	// base precedes the repository's name in paths. It is /v2/, followed by the name of the registry if the client
	// reaches Drydock by an address.
	base            string
	account, region string
	repository      string
	// alias is the name of the public registry, or empty.
	alias string
	ctx   context.Context // of the calls to the API
}

// paths are the paths below a repository.
var paths = regexp.MustCompile(`^(.+)/(manifests|blobs|tags|referrers)/(.+)$`)

// ServeHTTP implements http.Handler.
func (g *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Registry: g, w: w, r: r, base: "/v2/"}
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok && r.URL.Path != "/v2" {
		x.fail(http.StatusNotFound, "NOT_FOUND", "404 page not found")
		return
	}
	if sealed, ok := strings.CutPrefix(path, strings.TrimPrefix(ecr.LayerPath, "/v2/")); ok {
		x.layer(sealed)
		return
	}
	host := hostForm.FindStringSubmatch(hostname(r.Host))
	if host == nil { // localhost:PORT/ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY
		first, rest, _ := strings.Cut(path, "/")
		if host = hostForm.FindStringSubmatch(first); host != nil {
			x.base, path = "/v2/"+first+"/", rest
		}
	}
	if host != nil {
		x.account, x.region = host[1], host[2]
	}
	path = x.inPublic(path)
	if !(x.anonymous() && path != "") && !x.login() {
		return
	}
	if path == "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	m := paths.FindStringSubmatch(path)
	switch {
	case x.account == "":
		x.fail(http.StatusNotFound, "NAME_UNKNOWN", "the name of an image here begins with that of its registry: "+r.Host+"/"+ecr.Host("ACCOUNT", "REGION")+"/REPOSITORY")
		return
	case m == nil:
		x.fail(http.StatusNotFound, "NOT_FOUND", "404 page not found")
		return
	}
	x.repository = m[1]
	if what, name, ok := strings.Cut(m[1]+"/"+m[2]+"/"+m[3], "/blobs/uploads/"); ok && m[2] == "blobs" || strings.HasSuffix(path, "/blobs/uploads") {
		if !ok {
			what = strings.TrimSuffix(path, "/blobs/uploads")
		}
		x.repository = what
		x.uploads(name)
		return
	}
	var err error
	switch m[2] {
	case "manifests":
		err = x.manifest(m[3])
	case "blobs":
		err = x.blob(m[3])
	case "tags":
		err = x.tags()
	case "referrers":
		err = x.referrers(m[3])
	}
	x.answer(err)
}

// login authenticates the client by its token. If that fails, it sends the response.
func (x *exchange) login() bool {
	user, password, ok := x.r.BasicAuth()
	if !ok {
		// As ECR does: https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry_auth.html
		x.w.Header().Set("Www-Authenticate", `Basic realm="https://`+x.r.Host+`/",service="ecr.amazonaws.com"`)
		x.plain(http.StatusUnauthorized, "Not Authorized\n")
		return false
	}
	p, err := x.cfg.ECR.Login(password)
	switch {
	case errors.Is(err, ecr.ErrTokenExpired):
		x.fail(http.StatusForbidden, "DENIED", "Your authorization token has expired. Reauthenticate and try again.")
		return false
	case err != nil || user != ecr.User:
		x.w.Header().Set("Www-Authenticate", `Basic realm="https://`+x.r.Host+`/",service="ecr.amazonaws.com"`)
		x.plain(http.StatusUnauthorized, "Not Authorized\n")
		return false
	}
	call := &awsapi.Call{
		RequestID: ids.UUID(), Account: p.Account, Region: x.region, Principal: p, UserAgent: x.r.UserAgent(), Time: x.cfg.Clock.Now(), Host: x.r.Host,
		TLS: x.r.TLS != nil || hostForm.MatchString(hostname(x.r.Host)),
	}
	if a, err := netip.ParseAddrPort(x.r.RemoteAddr); err == nil {
		call.SourceIP = a.Addr().Unmap()
	}
	if x.cfg.Origin != nil {
		if endpoint, addr := x.cfg.Origin(x.r.RemoteAddr); addr.IsValid() {
			call.VPCEndpoint, call.SourceIP = endpoint, addr
		}
	}
	x.ctx = awsapi.WithCall(x.r.Context(), call)
	x.unhurried()
	return true
}

// transferTime is how long a client may take to send or receive a layer.
const transferTime = time.Hour

// unhurried gives an authenticated client more time than requests to the API have.
func (x *exchange) unhurried() {
	c, until := http.NewResponseController(x.w), x.cfg.Clock.Now().Add(transferTime)
	_ = errors.Join(c.SetReadDeadline(until), c.SetWriteDeadline(until)) // without support for deadlines, the server's own remain
}

// contents returns where the repository's images are stored. Earlier calls have checked that the repository exists.
func (x *exchange) contents() (*imagestore.Repository, bool) {
	if x.alias != "" {
		r, _, _ := x.cfg.Public.Repository(x.alias, x.repository)
		return r, r != nil
	}
	return x.cfg.ECR.Repository(x.account, x.region, x.repository)
}

// layer serves a layer to anyone who has its URL.
func (x *exchange) layer(sealed string) {
	account, region, repository, digest, err := x.cfg.ECR.LayerOf(sealed)
	x.account, x.region, x.repository = account, region, repository
	if err != nil {
		x.plain(http.StatusForbidden, "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
		return
	}
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		x.plain(http.StatusMethodNotAllowed, "")
		return
	}
	x.unhurried()
	x.answer(x.serve(digest))
}

// serve sends a layer, or the range of it that the client asked for.
func (x *exchange) serve(digest string) error {
	if b, ok := ecr.SuppliedLayer(x.account, x.region, x.repository, digest); ok {
		x.w.Header().Set("Content-Type", "application/octet-stream")
		x.w.Header().Set("Docker-Content-Digest", digest)
		http.ServeContent(x.w, x.r, "", time.Time{}, bytes.NewReader(b))
		return nil
	}
	r, ok := x.contents()
	if !ok {
		return notFound("NAME_UNKNOWN", "the repository was deleted")
	}
	size, ok := x.cfg.Images.Layer(r, digest)
	if !ok {
		return notFound("BLOB_UNKNOWN", "blob unknown to registry")
	}
	offset, length, status := int64(0), size, http.StatusOK
	if first, last, ok := rangeOf(x.r.Header.Get("Range"), size); ok {
		offset, length, status = first, last-first+1, http.StatusPartialContent
		x.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, size))
	}
	h := x.w.Header()
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Docker-Content-Digest", digest)
	h.Set("Accept-Ranges", "bytes")
	if x.r.Method == http.MethodHead {
		x.w.WriteHeader(status)
		return nil
	}
	content, err := x.cfg.Images.OpenLayer(r, digest, offset, length)
	if err != nil {
		return err
	}
	defer content.Close()
	x.w.WriteHeader(status)
	if _, err := io.Copy(x.w, content); err != nil {
		x.cfg.Log.DebugContext(x.r.Context(), "registry: sending a layer", "err", err)
	}
	return nil
}

// rangeOf parses a Range header that has a single range.
func rangeOf(header string, size int64) (first, last int64, ok bool) {
	from, to, ok := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	if !ok {
		return 0, 0, false
	}
	first, err := strconv.ParseInt(from, 10, 64)
	last = size - 1
	if err == nil && to != "" {
		last, err = strconv.ParseInt(to, 10, 64)
	}
	return first, min(last, size-1), err == nil && first >= 0 && first <= last && first < size
}

// A problem is an error response of the protocol.
type problem struct {
	status        int
	code, message string
}

func (p *problem) Error() string { return p.code + ": " + p.message }

func notFound(code, message string) error { return &problem{http.StatusNotFound, code, message} }

// statuses maps ECR's error codes to errors of the protocol. Clients show the code in lower case: "name unknown: The
// repository with name …".
var statuses = map[string]problem{
	"AccessDeniedException":             {http.StatusForbidden, "DENIED", ""},
	"RepositoryNotFoundException":       {http.StatusNotFound, "NAME_UNKNOWN", ""},
	"RegistryNotFoundException":         {http.StatusNotFound, "NAME_UNKNOWN", ""},
	"LayersNotFoundException":           {http.StatusNotFound, "BLOB_UNKNOWN", ""},
	"ImageNotFoundException":            {http.StatusNotFound, "MANIFEST_UNKNOWN", ""},
	"UploadNotFoundException":           {http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", ""},
	"ImageTagAlreadyExistsException":    {http.StatusBadRequest, "TAG_INVALID", ""},
	"ImageDigestDoesNotMatchException":  {http.StatusBadRequest, "DIGEST_INVALID", ""},
	"InvalidLayerException":             {http.StatusBadRequest, "DIGEST_INVALID", ""},
	"InvalidLayerPartException":         {http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", ""},
	"LayerPartTooSmallException":        {http.StatusBadRequest, "BLOB_UPLOAD_INVALID", ""},
	"EmptyUploadException":              {http.StatusBadRequest, "BLOB_UPLOAD_INVALID", ""},
	"ReferencedImagesNotFoundException": {http.StatusNotFound, "MANIFEST_BLOB_UNKNOWN", ""},
	"InvalidParameterException":         {http.StatusBadRequest, "MANIFEST_INVALID", ""},
	"LimitExceededException":            {http.StatusForbidden, "DENIED", ""},
	"KmsException":                      {http.StatusForbidden, "DENIED", ""},
	"UnableToGetUpstreamImageException": {http.StatusForbidden, "DENIED", ""},
}

// answer sends the error response for err, unless it is nil.
func (x *exchange) answer(err error) {
	if err == nil {
		return
	}
	if p, ok := errors.AsType[*problem](err); ok {
		x.fail(p.status, p.code, p.message)
		return
	}
	var api smithy.APIError
	switch {
	case !errors.As(err, &api):
		level := slog.LevelError
		if x.r.Context().Err() != nil { // the client has gone
			level = slog.LevelDebug
		}
		x.cfg.Log.Log(x.r.Context(), level, "registry: request failed", "method", x.r.Method, "path", x.r.URL.Path, "err", err)
		x.fail(http.StatusInternalServerError, "UNKNOWN", "internal error")
	case awsapi.IsThrottle(err):
		x.fail(http.StatusTooManyRequests, "TOOMANYREQUESTS", api.ErrorMessage())
	case statuses[api.ErrorCode()].status != 0:
		p := statuses[api.ErrorCode()]
		x.fail(p.status, p.code, api.ErrorMessage())
	default:
		x.fail(http.StatusBadRequest, "UNKNOWN", api.ErrorMessage())
	}
}

// fail responds with an error of the protocol.
func (x *exchange) fail(status int, code, message string) {
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	raw, err := json.Marshal(map[string][]item{"errors": {{code, message}}})
	if err != nil {
		panic(err) // strings always encode
	}
	x.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	x.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	x.w.Header().Del("Content-Range")
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(raw) // it only fails if the client has gone
	}
}

func (x *exchange) plain(status int, text string) {
	x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, text) // it only fails if the client has gone
}

// method returns an error unless the request has one of the allowed methods.
func (x *exchange) method(allowed ...string) error {
	if slices.Contains(allowed, x.r.Method) {
		return nil
	}
	x.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return &problem{http.StatusMethodNotAllowed, "UNSUPPORTED", "The operation is unsupported."}
}
