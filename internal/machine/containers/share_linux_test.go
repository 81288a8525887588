package containers_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// layer returns a layer of an image as an archive. Files that are not links contain their names, unless they have a size.
func layer(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		data := []byte(h.Name)
		if h.Size > 0 {
			data = make([]byte, h.Size)
		}
		if h.Typeflag != tar.TypeReg {
			data = nil
		}
		h.Size = int64(len(data))
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }

// load gives the machines an image with layers, as docker save writes it.
func load(t *testing.T, r *containers.Runtime, name string, all ...[]byte) {
	t.Helper()
	loadFor(t, r, name, runtime.GOARCH, all...)
}

func loadFor(t *testing.T, r *containers.Runtime, name, architecture string, all ...[]byte) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(name string, data []byte) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	text := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var diffs, files []string
	for i, l := range all {
		diffs = append(diffs, "sha256:"+sum(string(l)))
		files = append(files, fmt.Sprintf("%d.tar", i))
		put(files[i], l)
	}
	put("config.json", text(map[string]any{"architecture": architecture, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": diffs}}))
	put("manifest.json", text([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": files}}))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := r.LoadImage(&b); err != nil || !slices.Equal(names, []string{name}) {
		t.Fatalf("%v, %v", names, err)
	}
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// chain returns the name of the folder of the last layer.
// https://github.com/opencontainers/image-spec/blob/v1.1.1/config.md#layer-chainid
func chain(all ...[]byte) string {
	id := sum(string(all[0]))
	for _, l := range all[1:] {
		id = sum("sha256:" + id + " sha256:" + sum(string(l)))
	}
	return id
}

// shared waits until every archive has been unpacked or refused, and returns how many were refused.
func shared(t *testing.T, dir string) (refused int) {
	t.Helper()
	eventually(t, func() error {
		all, err := filepath.Glob(filepath.Join(dir, "images", "*"+layers.Archive))
		if err != nil || len(all) == 0 {
			return fmt.Errorf("archives: %v, %w", all, err)
		}
		refused = 0
		for _, a := range all {
			archive, err := os.Stat(a)
			if err != nil {
				return err
			}
			st, err := os.Stat(strings.TrimSuffix(a, layers.Archive) + layers.Shared)
			if err != nil {
				return err
			}
			if !st.ModTime().Equal(archive.ModTime()) {
				return fmt.Errorf("%s has not been unpacked", a)
			}
			if st.Size() == 0 {
				refused++
			}
		}
		return nil
	})
	return refused
}

// folders waits until these and no others are the folders of layers.
func folders(t *testing.T, dir string, want ...string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, func() error {
		entries, err := os.ReadDir(filepath.Join(dir, "images", layers.Dir))
		if err != nil {
			return err
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("layers %q, want %q", got, want)
		}
		return nil
	})
}

// Two images have a layer in common: all machines see one copy of it, as the image says, and none can change it.
func TestMachinesShareLayers(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	below := layer(t, tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, file("d/gone"), file("d/kept"), tar.Header{Typeflag: tar.TypeDir, Name: "o/"}, file("o/old"),
		tar.Header{Typeflag: tar.TypeReg, Name: "setuid", Mode: 0o4755, Uid: 7, Gid: 8})
	above := layer(t, file("d/.wh.gone"), tar.Header{Typeflag: tar.TypeDir, Name: "o/"}, file("o/.wh..wh..opq"), file("o/new"))
	load(t, r, "one:1", below, above)
	load(t, r, "two:1", below)
	a := start(t, r, instance("i-a", "10.0.0.11"))
	if n := shared(t, dir); n > 0 {
		t.Fatalf("%d archives were refused", n)
	}
	folders(t, dir, chain(below), chain(below, above))

	const at = "/opt/drydock/images/" + layers.Dir + "/"
	got := run(t, a, "sh", "-c", fmt.Sprintf("mkdir -p /tmp/m && mount -t overlay -o ro,userxattr,lowerdir=%s/%s:%s/%[2]s overlay /tmp/m && cd /tmp/m && find . -type f | sort && cat setuid && stat -c ' %%a %%u %%g' setuid",
		at+chain(below, above), layers.Files, at+chain(below)))
	if got != "./d/kept\n./o/new\n./setuid\nsetuid 4755 7 8\n" {
		t.Errorf("the image has %q", got)
	}
	own := at + chain(below) + "/" + layers.Files
	run(t, a, "sh", "-c", fmt.Sprintf("mount -o remount,bind,rw /opt/drydock/images; ! touch %[1]s/x && ! (echo x > %[1]s/d/kept) && ! rm -f %[1]s/d/kept && ! chmod 777 %[1]s && ! mkdir %[2]s/x", own, at))
}

// A layer has names that lead out of its folder, and one does not have the content that its image says.
func TestAHostileLayerStaysInItsFolder(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	victim := t.TempDir()
	if err := os.Chmod(victim, 0o777); err != nil {
		t.Fatal(err)
	}
	link := func(kind byte, name, to string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: to}
	}
	up := strings.Repeat("../", 20)
	hostile := layer(t, link(tar.TypeSymlink, "absolute", victim), file("absolute/a"), link(tar.TypeSymlink, "relative", up+victim[1:]), file("relative/b"),
		link(tar.TypeSymlink, "others", "/layers"), file("others/c"), file(up+"layers/d"), file("fine"))
	hard := layer(t, link(tar.TypeLink, "hard", up+"proc/self/status"))
	good := layer(t, file("good"))
	load(t, r, "hostile:1", hostile)
	load(t, r, "hard:1", hard)
	load(t, r, "good:1", good)
	a := start(t, r, instance("i-a", "10.0.0.11"))
	if n := shared(t, dir); n != 1 {
		t.Errorf("%d archives were refused, want only that with a link to a file that it does not have", n)
	}
	folders(t, dir, chain(hostile), chain(good))
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Errorf("outside of the layer are %v, %v", left, err)
	}
	if got := run(t, a, "cat", "/opt/drydock/images/"+layers.Dir+"/"+chain(hostile)+"/"+layers.Files+"/fine"); got != "fine" {
		t.Errorf("the layer has %q", got)
	}
}

// The host is killed while an archive is unpacked. The next one unpacks it from the beginning.
func TestALayerIsWholeOrNotThere(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	start(t, r, instance("i-a", "10.0.0.11"))
	const size = 48 << 20
	large := file("large")
	large.Size = size
	killed := false
	var all [][]byte
	for i := 0; i < 5 && !killed; i++ {
		all = append(all, layer(t, file(fmt.Sprint(i)), large))
		load(t, r, fmt.Sprintf("large:%d", i), all[i])
		images := filepath.Join(dir, "images")
		tick := time.NewTicker(time.Millisecond)
		for deadline := time.Now().Add(time.Minute); !killed && time.Now().Before(deadline); <-tick.C {
			if _, err := os.Stat(filepath.Join(images, layers.Dir, chain(all[i]))); err == nil {
				break // it was too fast
			}
			if _, err := os.Stat(filepath.Join(images, layers.Dir, ".new", "snapshots", "snapshots")); err != nil {
				continue
			}
			for _, pid := range processes(t, "be-child\x00"+inside.HostMode) {
				if parent(t, pid) == os.Getpid() {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, err := os.Stat(filepath.Join(images, layers.Dir, chain(all[i])))
			killed = errors.Is(err, fs.ErrNotExist)
		}
		tick.Stop()
	}
	if !killed {
		t.Fatal("the archives were unpacked too fast to be disturbed")
	}
	if n := shared(t, dir); n > 0 {
		t.Errorf("%d archives were refused", n)
	}
	var names []string
	for i, l := range all {
		names = append(names, chain(l))
		if st, err := os.Stat(filepath.Join(dir, "images", layers.Dir, names[i], layers.Files, "large")); err != nil || st.Size() != size {
			t.Errorf("the layer is not whole: %v, %v", st, err)
		}
	}
	folders(t, dir, names...)
}

// An image is replaced: its layers stay as long as there is a machine that may use them.
func TestLayersGoWithTheirMachines(t *testing.T) {
	needContainers(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	a := start(t, r, instance("i-a", "10.0.0.11"))
	one, two := layer(t, file("one")), layer(t, file("two"))
	retired := filepath.Join(dir, "images", layers.Dir, chain(one), layers.Retired)
	isRetired := func(want bool) {
		t.Helper()
		eventually(t, func() error {
			if _, err := os.Stat(retired); (err == nil) != want {
				return fmt.Errorf("retired: %v, want %v", err, want)
			}
			return nil
		})
	}
	load(t, r, "web:1", one)
	shared(t, dir)
	load(t, r, "web:1", two)
	isRetired(true)
	folders(t, dir, chain(one), chain(two))
	if got := run(t, a, "cat", "/opt/drydock/images/"+layers.Dir+"/"+chain(one)+"/"+layers.Files+"/one"); got != "one" {
		t.Errorf("the layer has %q", got)
	}
	// The image is the first one again.
	load(t, r, "web:1", one)
	isRetired(false)
	load(t, r, "web:1", two)
	isRetired(true)
	// A machine that has started since may not use it, and does not keep it.
	start(t, r, instance("i-b", "10.0.0.12"))
	if err := a.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	folders(t, dir, chain(one), chain(two))
	if err := r.RemoveDisk("i-a"); err != nil {
		t.Fatal(err)
	}
	folders(t, dir, chain(two))
}

// The daemon is killed while it removes a layer. The next one removes the rest, and an image with that layer has all of it again.
func TestARemovalIsTakenUpAgain(t *testing.T) {
	needContainers(t)
	const files = 2000
	entries := make([]tar.Header, files)
	for i := range entries {
		entries[i] = file(fmt.Sprintf("f%d", i))
	}
	large, small := layer(t, entries...), layer(t, file("small"))
	if dir := os.Getenv(daemonDir); dir != "" { // this is the daemon
		r := newRuntime(t, dir)
		a := start(t, r, instance("i-a", "10.0.0.11"))
		load(t, r, "web:1", large)
		shared(t, dir)
		load(t, r, "web:1", small)
		shared(t, dir)
		if err := errors.Join(a.Stop(t.Context(), true), r.RemoveDisk("i-a")); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	dir, disturbed := "", false
	for i := 0; i < 20 && !disturbed; i++ {
		dir = t.TempDir()
		disturbed = disturbRemoval(t, dir, chain(large))
	}
	if !disturbed {
		t.Fatal("the layer was removed too fast to be disturbed")
	}
	r := newRuntime(t, dir)
	b := start(t, r, instance("i-b", "10.0.0.12"))
	folders(t, dir, chain(small))
	load(t, r, "large:1", large)
	if n := shared(t, dir); n > 0 {
		t.Fatalf("%d archives were refused", n)
	}
	folders(t, dir, chain(large), chain(small))
	if got := run(t, b, "sh", "-c", "ls /opt/drydock/images/"+layers.Dir+"/"+chain(large)+"/"+layers.Files+" | wc -l"); strings.TrimSpace(got) != fmt.Sprint(files) {
		t.Errorf("the layer has %s files, want %d", got, files)
	}
}

// disturbRemoval lets this test's daemon run, kills it when it removes a layer, and reports whether some of the layer is left.
func disturbRemoval(t *testing.T, dir, layer string) bool {
	t.Helper()
	daemon := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=3m")
	daemon.Env = append(os.Environ(), daemonDir+"="+dir)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = daemon.Process.Kill() // it may have ended
		_ = daemon.Wait()         // it was killed
	}()
	whole, removing := filepath.Join(dir, "images", layers.Dir, layer), filepath.Join(dir, "images", layers.Dir, ".removed-"+layer)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	seen := false
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		if _, err := os.Stat(whole); err == nil {
			seen = true
			continue
		}
		if seen {
			if err := daemon.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = daemon.Wait()
			left, err := os.ReadDir(filepath.Join(removing, layers.Files))
			return err == nil && len(left) > 0
		}
	}
	t.Fatal("the layer is not removed")
	return false
}

// containerdConfig is what containerd needs to import images.
const containerdConfig = `version = 3
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.snapshotter.v1.overlayfs"]
  reserve = true
`

// A shared layer takes its size of the disk of each machine, once, and nothing of the real disk. An image that does not fit is not
// there, and takes nothing.
func TestSharedLayersCountOnDisks(t *testing.T) {
	needDisks(t)
	dir := t.TempDir()
	r := newRuntime(t, dir)
	in := instance("i-a", "10.0.0.11")
	in.DiskGiB = 1
	a := start(t, r, in).(*containers.Machine)
	if err := errors.Join(a.Write(t.Context(), "/etc/containerd/config.toml", []byte(containerdConfig), 0o644), a.StartProgram(t.Context(), "containerd", nil)); err != nil {
		t.Fatal(err)
	}
	const slack = 8 // MiB of containerd's own files
	used := func() (mib int) {
		t.Helper()
		if _, err := fmt.Sscan(run(t, a, "sh", "-c", "sync /var; echo $((($(stat -f -c '(%b - %f) * %S' /var)) >> 20))"), &mib); err != nil {
			t.Fatal(err)
		}
		return mib
	}
	takes := func(want int) {
		t.Helper()
		eventually(t, func() error {
			if got := used(); got < want || got > want+slack {
				return fmt.Errorf("%d MiB of the disk are used, want %d", got, want)
			}
			return nil
		})
	}
	imported := func(n int) {
		t.Helper()
		eventually(t, func() error {
			if got := run(t, a, "sh", "-c", "ls /var/lib/drydock/imported 2>/dev/null; true"); strings.Count(got, ".done") != n || strings.Contains(got, ".error") {
				return fmt.Errorf("imported: %q, want %d", got, n)
			}
			return nil
		})
	}
	large := func(name string, mib int64) []byte {
		h := file(name)
		h.Size = mib << 20
		return layer(t, h)
	}
	imported(0)
	before := used()
	real, _ := allocated(t, dir, "i-a")
	one, two := large("one", 64), large("two", 32)
	load(t, r, "one:1", one)
	imported(1)
	takes(before + 64)
	load(t, r, "both:1", one, two)
	imported(2)
	takes(before + 96)
	if now, _ := allocated(t, dir, "i-a"); now > real+24 {
		t.Errorf("the machine's disk has grown from %d to %d MiB of the real one", real, now)
	}

	remove := func(image string) {
		t.Helper()
		conn, err := grpc.NewClient("passthrough:///containerd", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return a.Unix(ctx, "/run/containerd/containerd.sock")
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := runtimeapi.NewImageServiceClient(conn).RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image}}); err != nil {
			t.Fatal(err)
		}
	}
	remove("docker.io/library/one:1") // its layer is also that of the other image
	takes(before + 96)
	remove("docker.io/library/both:1")
	takes(before)

	free := 0
	if _, err := fmt.Sscan(run(t, a, "sh", "-c", "echo $((($(stat -f -c '%a * %S' /var)) >> 20))"), &free); err != nil {
		t.Fatal(err)
	}
	run(t, a, "fallocate", "-l", fmt.Sprintf("%dM", free-40), "/home/filler")
	full := used()
	load(t, r, "more:1", large("more", 64))
	eventually(t, func() error {
		if got := run(t, a, "cat", "/var/log/containerd.log"); !strings.Contains(got, "no space left on device") {
			return errors.New("the image fits")
		}
		return nil
	})
	imported(2)
	takes(full)
	run(t, a, "rm", "/home/filler")
	imported(3)
	takes(before + 64)
}

// The thread that starts the host had copies of this machine's mounts, which would have been in use until the daemon ends.
func TestNoThreadKeepsMounts(t *testing.T) {
	needContainers(t)
	start(t, newRuntime(t, t.TempDir()), instance("i-a", "10.0.0.11"))
	home, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob("/proc/self/task/*/ns/mnt")
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, name := range threads {
		if ns, err := os.Readlink(name); err == nil && ns != home { // otherwise it has ended
			t.Errorf("%s is %s, not %s", name, ns, home)
		}
	}
}
