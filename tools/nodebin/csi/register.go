package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"github.com/kubernetes-csi/csi-lib-utils/rpc"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func logger() klog.Logger { return klog.Background() }

// register registers the driver with the kubelet, as csi-node-driver-registrar does.
// https://kubernetes.io/docs/reference/node/device-plugin-registration (the plugin registration API)
func register(ctx context.Context, args []string) error {
	fs := flags()
	address := fs.String("csi-address", "/run/csi/socket", "the driver's socket")
	path := fs.String("kubelet-registration-path", "", "the driver's socket as the kubelet sees it")
	dir := fs.String("plugin-registration-path", "/registration", "the folder in which the kubelet looks for plugins")
	health := fs.String("http-endpoint", "", "the address of /healthz")
	if err := fs.Parse(args); err != nil {
		return err
	}
	conn, err := connection.ConnectWithoutMetrics(ctx, *address)
	if err != nil {
		return fmt.Errorf("connecting to the driver: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	name, err := rpc.GetDriverName(call, conn)
	if err != nil {
		return err
	}
	if *health == "" {
		return announce(ctx, name, *path, *dir)
	}
	failed := make(chan error, 2)
	go func() {
		failed <- serveHTTP(ctx, *health, func() error { _, err := os.Stat(registrationSocket(name, *dir)); return err })
	}()
	go func() { failed <- announce(ctx, name, *path, *dir) }()
	return <-failed
}

func registrationSocket(driver, dir string) string { return filepath.Join(dir, driver+"-reg.sock") }

// announce answers the kubelet, which finds a driver by its socket in dir, until ctx ends. path is the driver's own socket as the
// kubelet sees it.
func announce(ctx context.Context, driver, path, dir string) error {
	socket := registrationSocket(driver, dir)
	if err := os.MkdirAll(dir, 0o750); err != nil { // the kubelet may not have begun
		return err
	}
	l, err := listen(socket)
	if err != nil {
		return err
	}
	defer os.Remove(socket)
	srv := grpc.NewServer()
	failed := make(chan error, 1)
	registration.RegisterRegistrationServer(srv, &registrationServer{info: &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driver, Endpoint: path, SupportedVersions: []string{"1.0.0"},
	}, failed: failed})
	go func() { failed <- srv.Serve(l) }()
	defer srv.Stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

type registrationServer struct {
	registration.UnimplementedRegistrationServer
	info   *registration.PluginInfo
	failed chan<- error
}

func (s *registrationServer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return s.info, nil
}

func (s *registrationServer) NotifyRegistrationStatus(_ context.Context, st *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !st.PluginRegistered {
		select {
		case s.failed <- fmt.Errorf("the kubelet does not register the driver: %s", st.Error):
		default: // it ends already
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// probe answers /healthz with the result of the driver's Probe, as upstream's livenessprobe does.
func probe(ctx context.Context, args []string) error {
	fs := flags()
	address := fs.String("csi-address", "/run/csi/socket", "the driver's socket")
	timeout := fs.Duration("probe-timeout", time.Second, "of a call of the driver")
	port := fs.String("health-port", "9808", "the port of /healthz")
	endpoint := fs.String("http-endpoint", "", "the address of /healthz, instead of a port")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *endpoint == "" {
		*endpoint = net.JoinHostPort("", *port)
	}
	conn, err := connection.ConnectWithoutMetrics(ctx, *address)
	if err != nil {
		return fmt.Errorf("connecting to the driver: %w", err)
	}
	return serveHTTP(ctx, *endpoint, func() error {
		call, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		if ready, err := rpc.Probe(call, conn); err != nil || !ready {
			return fmt.Errorf("the driver is not ready: %w", err)
		}
		return nil
	})
}

// serveHTTP answers /healthz until ctx ends.
func serveHTTP(ctx context.Context, address string, check func() error) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("ok")) // the kubelet may be gone
	})
	srv := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	return srv.ListenAndServe()
}

// listen listens at a socket, in place of one that an earlier process has left.
func listen(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return net.Listen("unix", socket)
}
