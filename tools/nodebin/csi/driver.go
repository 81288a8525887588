package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	driverName    = "ebs.csi.aws.com"
	driverVersion = "v1.64.0" // whose behaviour this is like

	// Keys of topology, as upstream's driver has them.
	// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/topology.md
	zoneKey       = "topology.kubernetes.io/zone"
	driverZoneKey = "topology." + driverName + "/zone"
)

// driver serves the CSI services of the controller or of a node. The names of its flags are upstream's.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/options.md
func driver(ctx context.Context, args []string) error {
	mode := "all"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		mode, args = args[0], args[1:]
	}
	if mode == "pre-stop-hook" { // upstream's waits here until volumes of a drained node are detached, which is quick
		return nil
	}
	fs := flags()
	endpoint := fs.String("endpoint", "unix://tmp/csi.sock", "the driver's socket")
	tags, cluster := tagFlag{}, ""
	fs.Var(&tags, "extra-tags", "tags of new volumes and snapshots, as key=value pairs")
	fs.StringVar(&cluster, "k8s-tag-cluster-id", "", "the cluster's ID in tags")
	attachLimit := fs.Int64("volume-attach-limit", -1, "the number of volumes of a node, instead of the instance's")
	reserved := fs.Int64("reserved-volume-attachments", -1, "how many attachments are not for claims, instead of those that the node has")
	name := fs.String("driver-name", driverName, "the driver's name; EKS Auto Mode's has another one")
	topology := tagFlag{}
	fs.Var(&topology, "topology", "more labels of a node's topology, as key=value pairs")
	plugins := fs.String("plugin-registration-path", "", "the folder in which the kubelet looks for plugins, if a node's driver registers itself")
	for _, name := range []string{"batching", "aws-sdk-debug-log", "warn-on-invalid-tag", "enable-otel-tracing", "legacy-xfs", "windows-host-process", "deprecated-metrics"} {
		fs.Bool(name, false, "without effect here")
	}
	for _, name := range []string{"user-agent-extra", "http-endpoint", "csi-mount-point-prefix", "metrics-cert-file", "metrics-key-file", "modify-volume-request-handler-timeout", "metadata-sources"} {
		fs.String(name, "", "without effect here")
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	srv := grpc.NewServer(grpc.UnaryInterceptor(logErrors))
	csi.RegisterIdentityServer(srv, identity{name: *name})
	switch mode {
	case "controller", "all":
		client, err := ec2Client(ctx)
		if err != nil {
			return err
		}
		csi.RegisterControllerServer(srv, &controllerServer{ec2: client, tags: tags, cluster: cluster})
	}
	switch mode {
	case "node", "all":
		csi.RegisterNodeServer(srv, &nodeServer{limit: *attachLimit, reserved: *reserved, driver: *name, topology: topology})
	}
	_, socket, ok := strings.Cut(*endpoint, ":")
	if !ok {
		return fmt.Errorf("--endpoint: %q is not a URL of a socket", *endpoint)
	}
	l, err := listen("/" + strings.TrimLeft(socket, "/"))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, srv.GracefulStop)()
	failed := make(chan error, 2)
	go func() { failed <- srv.Serve(l) }()
	if *plugins != "" {
		go func() { failed <- announce(ctx, *name, l.Addr().String(), *plugins) }()
	}
	return <-failed
}

// tagFlag is a flag of the form key1=value1,key2=value2.
type tagFlag map[string]string

func (t *tagFlag) String() string { return fmt.Sprint(map[string]string(*t)) }

func (t *tagFlag) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form key=value", pair)
		}
		(*t)[key] = value
	}
	return nil
}

var _ flag.Value = (*tagFlag)(nil)

// logErrors logs failed calls.
func logErrors(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	out, err := handler(ctx, req)
	if err != nil {
		logger().Error(err, "GRPC error", "method", info.FullMethod)
	}
	return out, err
}

// ec2Client returns a client with the pod's role, or else the node's.
func ec2Client(ctx context.Context) (*ec2.Client, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		here, err := findInstance(ctx)
		if err != nil {
			return nil, fmt.Errorf("the region is not known: %w", err)
		}
		cfg.Region = here.region
	}
	endpoint := os.Getenv("AWS_EC2_ENDPOINT")
	return ec2.NewFromConfig(cfg, func(o *ec2.Options) {
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	}), nil
}

// An instance is where the program runs.
type instance struct {
	id, kind, region, zone string
	interfaces, volumes    int64 // network interfaces, and volumes since its launch or last start, without the root volume; 0 if unknown
}

// findInstance asks the instance metadata service or, where pods do not reach it, the Node.
func findInstance(ctx context.Context) (instance, error) {
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	client := imds.New(imds.Options{})
	doc, err := client.GetInstanceIdentityDocument(call, nil)
	if err == nil {
		i := instance{id: doc.InstanceID, kind: doc.InstanceType, region: doc.Region, zone: doc.AvailabilityZone}
		i.interfaces, i.volumes = count(call, client, "network/interfaces/macs/", ""), count(call, client, "block-device-mapping/", "ebs")
		return i, nil
	}
	i, nerr := instanceOfNode(ctx, os.Getenv("CSI_NODE_NAME"))
	if nerr != nil {
		return instance{}, errors.Join(fmt.Errorf("the instance metadata service: %w", err), nerr)
	}
	return i, nil
}

// count returns how many entries of a folder of the metadata service begin with a prefix.
func count(ctx context.Context, client *imds.Client, folder, prefix string) (n int64) {
	out, err := client.GetMetadata(ctx, &imds.GetMetadataInput{Path: folder})
	if err != nil {
		return 0
	}
	defer out.Content.Close()
	b, _ := io.ReadAll(io.LimitReader(out.Content, 16<<10)) // as above: without it, 0
	for entry := range strings.FieldsSeq(string(b)) {
		if strings.HasPrefix(entry, prefix) {
			n++
		}
	}
	return n
}

// instanceOfNode reads the instance from a Node's provider ID, aws:///us-east-1a/i-…, and labels.
func instanceOfNode(ctx context.Context, name string) (instance, error) {
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return instance{}, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return instance{}, err
	}
	n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return instance{}, fmt.Errorf("the node %q: %w", name, err)
	}
	parts := strings.Split(n.Spec.ProviderID, "/")
	if len(parts) < 2 {
		return instance{}, fmt.Errorf("the node %q has the provider ID %q", name, n.Spec.ProviderID)
	}
	return instance{
		id: parts[len(parts)-1], zone: parts[len(parts)-2],
		kind: n.Labels["node.kubernetes.io/instance-type"], region: n.Labels["topology.kubernetes.io/region"],
	}, nil
}

type identity struct {
	csi.UnimplementedIdentityServer
	name string
}

func (i identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.name, VendorVersion: driverVersion}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	out := &csi.GetPluginCapabilitiesResponse{}
	for _, c := range []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS} {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: c}}})
	}
	return out, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// required returns an error unless all values are set. Names and values alternate.
func required(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return status.Errorf(codes.InvalidArgument, "%s not provided", pairs[i])
		}
	}
	return nil
}

// check returns an error if a volume cannot be used as a claim wants.
func check(all ...*csi.VolumeCapability) error {
	if len(all) == 0 || all[0] == nil {
		return status.Error(codes.InvalidArgument, "Volume capabilities not provided")
	}
	for _, c := range all {
		mode := c.GetAccessMode().GetMode()
		switch {
		case c.GetBlock() != nil:
			return status.Error(codes.InvalidArgument, "volumeMode Block is not implemented by Drydock: its machines have no block devices")
		case mode != csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:
			return status.Errorf(codes.InvalidArgument, "Volume capabilities %s not supported. Only AccessModes[ReadWriteOnce] supported.", mode)
		}
		if t := c.GetMount().GetFsType(); t != "" && t != "ext4" {
			return status.Errorf(codes.InvalidArgument, "file system %q is not supported: Drydock formats volumes with ext4", t)
		}
	}
	return nil
}

// poll calls f until it returns true or an error, or ctx ends.
func poll(ctx context.Context, f func() (bool, error)) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
