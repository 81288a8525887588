package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/fault/keeper"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/twin/account"
)

// addDaemonAPI adds the daemon's own paths below /_drydock/, which its commands and test suites use, to those of the
// services.
func (d *daemon) addDaemonAPI() {
	mux := &d.daemonAPI
	mux.HandleFunc("GET /_drydock/ping", func(w http.ResponseWriter, r *http.Request) {
		p := api.Ping{PID: d.info.PID}
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && from.Addr().Unmap().IsLoopback() {
			p.DataDir = d.info.DataDir
		}
		httpapi.Answer(w, p)
	})
	mux.HandleFunc("GET /_drydock/status", d.getStatus)
	mux.HandleFunc("POST /_drydock/reset", d.postReset)
	mux.HandleFunc("GET /_drydock/images", d.getImages)
	mux.HandleFunc("GET /_drydock/instance-identity.pem", d.machines.GetCertificate)
	mux.HandleFunc("POST /_drydock/images/alias", d.postImageAlias)
	mux.HandleFunc("GET "+httpapi.NodeImages, d.getNodeImages)
	mux.HandleFunc("POST "+httpapi.NodeImages, d.postNodeImages)
	mux.HandleFunc("POST /_drydock/rehearse/upgrade", d.postRehearseUpgrade)
	mux.HandleFunc("POST "+httpapi.Twin, d.postTwin)
	mux.HandleFunc("GET /_drydock/twins", d.getTwins)
	mux.HandleFunc("GET /_drydock/urls", d.getURLs)
	d.why.Handle(mux)
	d.podRuns.Handle(mux)
	(&keeper.API{Keeper: d.keeper, EC2: d.ec2, Services: operations, Instances: d.machines.IDs, Clusters: func(account, region string) []string { return d.eks.ClusterNames(account, region) }, SpotWarning: d.timing.SpotWarning, FargateNotice: d.timing.FargateNotice}).Handle(mux)
	mux.HandleFunc("GET /_drydock/goroutines", func(w http.ResponseWriter, _ *http.Request) {
		_ = pprof.Lookup("goroutine").WriteTo(w, 1)
	})
	mux.HandleFunc("GET /_drydock/profile", getProfile)
	// A heap profile for go tool pprof.
	mux.HandleFunc("GET /_drydock/heap", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC() // so that the profile shows only live objects
		_ = pprof.Lookup("heap").WriteTo(w, 0)
	})
}

// access guards the daemon's own paths and its proxy.
func (d *daemon) access() *httpapi.Access {
	return &httpapi.Access{
		Token: d.info.Token, Version: d.info.Version, Guest: d.origins.Has,
		Open: []string{"/_drydock/ping", "/_drydock/instance-identity.pem"},
	}
}

// countPatience is how long the status request waits for the number of keys: less than any client waits for the
// status.
const countPatience = 2 * time.Second

// postRehearseUpgrade upgrades a copy of the cluster ?cluster= and returns what would break.
func (d *daemon) postRehearseUpgrade(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := awsapi.WithCall(r.Context(), &awsapi.Call{Account: account, Region: region, Service: "eks"})
	cluster := r.URL.Query().Get("cluster")
	if err := d.why.Known(ctx, account, region, cluster); err != nil {
		http.Error(w, err.Error(), api.StatusUnknown)
		return
	}
	out, err := d.eks.Rehearse(ctx, cluster, d.why.UnknownMoves(account, cluster))
	if err == nil {
		out.Unknown = append(out.Unknown, d.why.UnknownOfUpgrade(account, cluster)...)
		httpapi.Answer(w, out)
		return
	}
	status, text := http.StatusInternalServerError, err.Error()
	if api, ok := errors.AsType[smithy.APIError](err); ok { // EKS refused the request
		status, text = http.StatusBadRequest, api.ErrorMessage()
	}
	http.Error(w, text, status)
}

// getProfile returns a CPU profile of the daemon for go tool pprof. It covers the next ?seconds=, 10 by default.
func getProfile(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("seconds"), "10"))
	if err != nil || seconds < 1 || seconds > 120 {
		http.Error(w, "seconds must be a number from 1 to 120", http.StatusBadRequest)
		return
	}
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		http.Error(w, err.Error(), http.StatusConflict) // another profile is running
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(time.Duration(seconds) * time.Second):
	}
	pprof.StopCPUProfile()
	_, _ = profile.WriteTo(w) // an error means that the client has disconnected
}

func (d *daemon) getStatus(w http.ResponseWriter, r *http.Request) {
	s := api.Status{
		DaemonInfo: d.info,
		Timing:     d.timing.Name,
		Nodes:      d.machines.Count(),
		Clusters:   []api.ClusterStatus{},
	}
	s.SecretAccessKey, s.Token = "", ""
	clusters, err := d.eks.Clusters(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, c := range clusters {
		cs := api.ClusterStatus{
			Account: c.Account, Region: c.Region, Name: c.Name,
			Version: c.Version, Status: c.Status, Endpoint: c.Endpoint,
		}
		if st, err := d.planes.Status(c.PlaneID); err == nil {
			cs.ControlPlane = string(st.State)
			if st.Reason != "" {
				cs.ControlPlane += ": " + st.Reason
			}
		}
		s.Clusters = append(s.Clusters, cs)
	}
	ctx, cancel := context.WithTimeout(r.Context(), countPatience)
	defer cancel()
	if n, err := d.store.CountKeys(ctx); err == nil {
		s.StoreKeys = n
	}
	s.DataVersion = d.store.DataVersion().Number()
	for _, u := range d.store.Unreadable() {
		s.Unreadable = append(s.Unreadable, api.UnreadableRecord{Collection: u.Collection, Key: u.Key.String(), Reason: u.Reason.Error()})
	}
	for _, t := range account.All(d.store) {
		s.Twins = append(s.Twins, api.TwinStatus{Account: t.Source.Account, Region: t.Source.Region, Read: t.Source.Started, Changed: t.Changed})
	}
	httpapi.Answer(w, s)
}

// postReset empties one account (?account=) or all of them, as if they had never been used.
func (d *daemon) postReset(w http.ResponseWriter, r *http.Request) {
	account := r.URL.Query().Get("account")
	if err := httpapi.CheckAccount(account); account != "" && err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := d.reset(r.Context(), account); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	httpapi.Answer(w, struct{}{})
}

func (d *daemon) reset(ctx context.Context, account string) error {
	ctx = context.WithoutCancel(ctx) // half a reset would leave control planes without an owner
	if err := d.store.Reset(ctx, account); err != nil {
		return err
	}
	d.keeper.Refresh()
	err := errors.Join(d.machines.StopAccount(ctx, account), d.planes.ReleaseAll(ctx, account))
	for _, m := range d.modules {
		if m.Reset != nil {
			err = errors.Join(err, m.Reset(ctx, account))
		}
	}
	err = errors.Join(err, d.bytes.Reset(ctx, account), d.blobs.Reset(ctx, account), d.twins().Forget(account))
	// New instances may get the addresses of old ones, and ssh would refuse their host keys.
	if gone := os.Remove(filepath.Join(d.cfg.DataDir, "ssh", "known_hosts")); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if account == "" || account == awsapi.DefaultAccount {
		err = errors.Join(err, d.iam.EnsureAccount(ctx, awsapi.DefaultAccount))
		if !d.cfg.Listen.Addr().IsLoopback() { // keep the key that drydock env exported
			err = errors.Join(err, d.iam.RestoreAccessKey(ctx, d.info.AccessKeyID, d.info.SecretAccessKey))
		}
	}
	d.journal.Append(journal.Entry{Time: time.Now(), Account: account, Kind: journal.KindReset})
	return err
}

func (d *daemon) getImages(w http.ResponseWriter, r *http.Request) {
	region := r.URL.Query().Get("region")
	aliases, err := d.ec2.ImageAliases(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out := []api.Image{}
	for _, img := range images.All(region) {
		i := api.Image{ID: img.ID, Name: img.Name, Kubernetes: img.KubernetesVersion}
		for id, name := range aliases {
			if target, ok := images.ByName(region, name); ok && target.ID == img.ID {
				i.Aliases = append(i.Aliases, id)
			}
		}
		out = append(out, i)
	}
	httpapi.Answer(w, out)
}

func (d *daemon) postImageAlias(w http.ResponseWriter, r *http.Request) {
	var in api.ImageAlias
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	if err == nil {
		err = d.ec2.AliasImage(r.Context(), in.ID, in.Name)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	httpapi.Answer(w, struct{}{})
}

// getNodeImages returns the names of the images that nodes with containers have besides registries.
func (d *daemon) getNodeImages(w http.ResponseWriter, _ *http.Request) {
	names, err := d.machines.LoadedImages()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	httpapi.Answer(w, names)
}

// postNodeImages adds the images of the archive in the body.
func (d *daemon) postNodeImages(w http.ResponseWriter, r *http.Request) {
	names, err := d.machines.LoadImage(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	httpapi.Answer(w, names)
}
