package controlplane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

const (
	authenticatePath = "/authenticate"
	authorizePath    = "/authorize"
	mutatePath       = "/mutate"
	maxReview        = 3 << 20
	// mutateFargatePath is separate, because a pod must be matched with Fargate profiles even if its identity cannot
	// be determined.
	mutateFargatePath = "/mutate-fargate"
)

// webhooks is the server for the children's token, authorization and admission webhooks. It only accepts clients with
// a certificate of its own authority, whose name is the ID of the calling plane. The authority lives as long as the
// daemon, because children never live longer.
type webhooks struct {
	ca     authority
	url    string
	server *http.Server
	done   chan struct{}
}

func serveWebhooks(ctx context.Context, cfg Config, hooks Hooks, find func(id string) *plane) (*webhooks, error) {
	now := cfg.Clock.Now()
	ca, err := newAuthority("drydock-webhooks", now)
	if err != nil {
		return nil, err
	}
	pair, err := ca.issue(request{commonName: "drydock", hosts: []string{"127.0.0.1"}, validity: caValidity}, now)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair, pair)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+authenticatePath, reviewHandler(find, func(req *http.Request, p *plane, r *authnv1.TokenReview) {
		r.Status = p.authenticate(req.Context(), req.RemoteAddr, r.Spec.Token)
		r.Spec = authnv1.TokenReviewSpec{} // do not repeat the token in the answer
	}))
	mux.Handle("POST "+authorizePath, reviewHandler(find, func(req *http.Request, p *plane, r *authzv1.SubjectAccessReview) {
		r.Status = authzv1.SubjectAccessReviewStatus{}
		if hooks.Authorize != nil {
			r.Status.Allowed, r.Status.Denied, r.Status.Reason = hooks.Authorize(req.Context(), p.id, &r.Spec)
		}
	}))
	mux.Handle("POST "+mutatePath, reviewHandler(find, func(req *http.Request, p *plane, r *admissionv1.AdmissionReview) {
		mutate(req.Context(), cfg.Log, p.unlessCopy(hooks.MutatePod), p.id, r)
	}))
	mux.Handle("POST "+mutateFargatePath, reviewHandler(find, func(req *http.Request, p *plane, r *admissionv1.AdmissionReview) {
		mutate(req.Context(), cfg.Log, p.unlessCopy(hooks.MutateFargatePod), p.id, r)
	}))
	mux.Handle("POST "+launch.CloudPath, reviewHandler(find, func(req *http.Request, p *plane, c *Cloud) {
		*c = cloud(req.Context(), hooks, p.id)
	}))
	mux.Handle("POST "+launch.LoggingPath, reviewHandler(find, func(req *http.Request, p *plane, l *launch.Logging) {
		*l = p.awaitLogging(req.Context(), *l)
	}))
	mux.Handle("POST "+launch.LogsPath, reviewHandler(find, func(req *http.Request, p *plane, l *launch.Logs) {
		err := p.writeLogs(req.Context(), l.Lines)
		*l = launch.Logs{}
		if err != nil {
			l.Problem = err.Error()
		}
	}))
	mux.Handle("POST "+launch.AutoModePath, reviewHandler(find, func(req *http.Request, p *plane, m *launch.AutoMode) {
		*m = launch.AutoMode{Answer: new(p.answerAutoMode(req.Context(), m.Call))}
	}))
	mux.Handle("POST "+launch.UsagePath, reviewHandler(find, func(req *http.Request, p *plane, u *launch.Usage) {
		if err := p.addUses(req.Context(), u.Uses); err != nil && req.Context().Err() == nil {
			cfg.Log.Warn("storing the use of deprecated APIs", "plane", p.id, "err", err)
		}
		*u = launch.Usage{}
	}))
	mux.Handle("POST "+stubPath, reviewHandler(find, func(req *http.Request, p *plane, r *admissionv1.AdmissionReview) {
		p.stub(req.PathValue("webhook"), r)
	}))
	w := &webhooks{ca: ca, url: "https://" + l.Addr().String(), done: make(chan struct{})}
	w.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    ca.pool(),
		},
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(w.done)
		_ = w.server.ServeTLS(l, "", "") // close ends it
	}()
	return w, nil
}

func (w *webhooks) close() {
	w.server.Close()
	<-w.done
}

func reviewHandler[T any](find func(id string) *plane, fn func(r *http.Request, p *plane, review *T)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := find(r.TLS.PeerCertificates[0].Subject.CommonName)
		if p == nil {
			http.Error(w, "no such control plane", http.StatusForbidden)
			return
		}
		var review T
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fn(r, p, &review)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review) // an error means that the child has disconnected
	}
}
