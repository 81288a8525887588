// Command controllers builds the controllers that people run on their clusters, unchanged, from the Go module proxy, with
// their images as archives for drydock image load:
//
//	controllers [-out DIR] [NAME...]
//
// It writes DIR/NAME/NAME, the program, DIR/NAME/image.tar, and files of the module, such as its Helm chart in DIR/NAME/chart.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// A controller is a program of a Go module.
type controller struct {
	name, module, version, pkg string
	replace                    []string          // modules that go.mod is to replace
	image, path, user          string            // the image, the program's path in it, and its user; no image: only the program
	files                      map[string]string // what else of the module is wanted: its path by the new name
}

var all = []controller{
	{
		// Tags of releases 2.x are no versions of this module's path, so this is a commit: that of release 2.4.5 and a little more.
		name: "aws-load-balancer-controller", module: "sigs.k8s.io/aws-load-balancer-controller", version: "v0.0.0-20221203001353-edeb4f1c1312", pkg: ".",
		replace: []string{
			"inet.af/netaddr=github.com/inetaf/netaddr@v0.0.0-20211027220019-c74959edd3b6",                             // the same module, under a name that the proxy has
			"go4.org/unsafe/assume-no-moving-gc=go4.org/unsafe/assume-no-moving-gc@v0.0.0-20231121144256-b99613f794b6", // older ones panic with this Go
		},
		image: "public.ecr.aws/eks/aws-load-balancer-controller:v2.4.5", path: "/controller", user: "65532",
		files: map[string]string{"chart": "helm/aws-load-balancer-controller", "iam_policy.json": "docs/install/iam_policy.json"},
	},
	{
		name: "karpenter", module: "github.com/aws/karpenter-provider-aws", version: "v1.14.1", pkg: "./cmd/controller",
		replace: []string{"sigs.k8s.io/karpenter=sigs.k8s.io/karpenter@v1.14.1"},
		image:   "public.ecr.aws/karpenter/controller:1.14.1", path: "/ko-app/controller", user: "65532",
		files: map[string]string{"chart": "charts/karpenter", "crds": "pkg/apis/crds"},
	},
	{
		// The newest release that builds with this Go.
		name: "external-dns", module: "sigs.k8s.io/external-dns", version: "v0.21.0", pkg: ".",
		image: "registry.k8s.io/external-dns/external-dns:v0.21.0", path: "/ko-app/external-dns", user: "65532",
		files: map[string]string{"manifests": "kustomize"},
	},
	{
		name: "helm", module: "helm.sh/helm/v3", version: "v3.22.0", pkg: "./cmd/helm",
	},
}

func main() {
	out := flag.String("out", "bin/controllers", "folder to write to")
	flag.Parse()
	for _, name := range flag.Args() {
		if !slices.ContainsFunc(all, func(c controller) bool { return c.name == name }) {
			fmt.Fprintf(os.Stderr, "controllers: there is no %q\n", name)
			os.Exit(2)
		}
	}
	for _, c := range all {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), c.name) {
			continue
		}
		if err := c.build(filepath.Join(*out, c.name)); err != nil {
			fmt.Fprintf(os.Stderr, "controllers: %s: %v\n", c.name, err)
			os.Exit(1)
		}
		fmt.Println(c.name, c.version)
	}
}

// build writes what is wanted of the controller to a folder, which it replaces. The module is copied: its go.mod is edited.
func (c controller) build(out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	module, err := download(c.module + "@" + c.version)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "controller")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := copyTree(scratch, module); err != nil {
		return err
	}
	for _, r := range c.replace {
		if err := run(scratch, "go", "mod", "edit", "-replace", r); err != nil {
			return err
		}
	}
	program := filepath.Join(out, c.name)
	if err := run(scratch, "go", "build", "-mod=mod", "-ldflags", "-s -w", "-o", program, c.pkg); err != nil {
		return err
	}
	for name, path := range c.files {
		if err := copyTree(filepath.Join(out, name), filepath.Join(module, path)); err != nil {
			return err
		}
	}
	if c.image == "" {
		return nil
	}
	b, err := testkit.ProgramImage(c.image, program, c.path, c.user)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "image.tar"), b, 0o644)
}

// download returns the folder of a module in the module cache.
func download(module string) (string, error) {
	b, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var got struct{ Dir, Error string }
	if e := json.Unmarshal(b, &got); e != nil || got.Dir == "" {
		return "", fmt.Errorf("downloading %s: %s", module, strings.TrimSpace(fmt.Sprint(got.Error, " ", err)))
	}
	return got.Dir, nil
}

// copyTree copies a file or a folder, writable: the module cache is not.
func copyTree(to, from string) error {
	if st, err := os.Stat(from); err == nil && st.IsDir() {
		from += "/."
	}
	if err := run("", "cp", "-r", from, to); err != nil {
		return err
	}
	return run("", "chmod", "-R", "u+w", to)
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}
