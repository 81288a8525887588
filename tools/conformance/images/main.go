// Command images writes the images that the conformance tests use, under the names that they use, as an archive for drydock image load. Upstream builds
// them on Alpine Linux from programs of its own: these have the same programs, on Debian's packages.
//
//	images -programs DIR -debian DIR -out FILE.tar
//
// DIR of -programs has the programs agnhost, nonewprivs, sample-apiserver and etcd; that of -debian is what debian.sh writes.
package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/kubernetes/test/utils/image"
)

func main() {
	programs := flag.String("programs", "", "folder with the programs")
	debian := flag.String("debian", "", "folder that debian.sh has written")
	sources := flag.String("sources", "", "folder of the module k8s.io/kubernetes")
	out := flag.String("out", "", "archive to write")
	flag.Parse()
	if err := run(*programs, *debian, *sources, *out); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(programs, debian, sources, out string) error {
	dir, err := os.MkdirTemp(filepath.Dir(out), ".layers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &builder{dir: dir}
	images := filepath.Join(sources, "test/images")
	base := b.layer(tree(filepath.Join(debian, "root")), text("etc/passwd", passwd), text("etc/group", group), text("etc/ssl/certs/ca-certificates.crt", ""), text("etc/nsswitch.conf", "hosts: files dns\n"), text("etc/nginx/nginx.conf", nginxConf),
		text("usr/share/nginx/html/index.html", "<h1>Welcome to nginx!</h1>\n"), link("bin/sh", "bash"), link("bin/nc", "nc.openbsd"), dir1777("tmp"), dir1777("var/tmp"), dir755("var/lib/nginx"))
	agnhost := b.layer(program(programs, "agnhost", "agnhost", 0o755), link("agnhost-2", "agnhost"), dir755("uploads"),
		program(images, "agnhost/porter/localhost.crt", "localhost.crt", 0o644), program(images, "agnhost/porter/localhost.key", "localhost.key", 0o644))
	busybox := b.layer(busybox(filepath.Join(debian, "busybox")), text("etc/passwd", passwd), text("etc/group", group), dir1777("tmp"), dir755("root"), dir755("home"), dir755("usr/bin"))
	nnp := b.layer(program(programs, "nonewprivs", "usr/local/bin/nnp", 0o4755))
	apiserver := b.layer(program(programs, "sample-apiserver", "sample-apiserver", 0o755))
	etcd := b.layer(program(programs, "etcd", "usr/local/bin/etcd", 0o755))
	path := "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	run := config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, Env: []string{path}}
	serve := config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"test-webserver"}, Env: []string{path}}
	b.image(image.Agnhost, run, base, agnhost)
	b.image(image.AgnhostPrev, run, base, agnhost)
	b.image(image.Pause, config{Entrypoint: []string{"/agnhost", "pause"}, User: "65535:65535", Env: []string{path}}, agnhost)
	b.image(image.BusyBox, config{Cmd: []string{"sh"}, Env: []string{path}}, busybox)
	b.image(image.Nonewprivs, config{Cmd: []string{"nnp"}, Env: []string{path}}, busybox, nnp)
	b.image(image.NonRoot, config{Cmd: []string{"sh"}, User: "1234", Env: []string{path}}, busybox)
	b.image(image.GlibcDnsTesting, config{Cmd: []string{"bash"}, Env: []string{path}}, base)
	for _, id := range []image.ImageID{image.Nginx, image.NginxNew} {
		b.image(id, config{Cmd: []string{"nginx", "-g", "daemon off;"}, Env: []string{path}}, base)
	}
	b.image(image.Nautilus, serve, base, agnhost, b.layer(program(images, "nautilus/html/nautilus.jpg", "nautilus.jpg", 0o644), program(images, "nautilus/html/data.json", "data.json", 0o644)))
	b.image(image.Kitten, serve, base, agnhost, b.layer(program(images, "kitten/html/kitten.jpg", "kitten.jpg", 0o644), program(images, "kitten/html/data.json", "data.json", 0o644)))
	b.image(image.APIServer, config{Entrypoint: []string{"/sample-apiserver"}, Env: []string{path}}, apiserver)
	b.image(image.Etcd, config{Cmd: []string{"etcd"}, Env: []string{path}}, busybox, etcd)
	if b.err != nil {
		return b.err
	}
	return b.write(out)
}

// The users of agnhost's image: https://github.com/kubernetes/kubernetes/blob/v1.36.3/test/images/agnhost/Dockerfile
const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n"
	group  = "root:x:0:\nnogroup:x:65534:\nnobody:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
)

// nginxConf serves what the image of nginx serves.
const nginxConf = `user root;
pid /run/nginx.pid;
error_log stderr;
events {}
http {
	access_log /dev/stdout;
	server {
		listen 80;
		root /usr/share/nginx/html;
	}
}
`

// An entry adds files to a layer.
type entry func(w *tar.Writer) error

func header(w *tar.Writer, name string, mode int64, kind byte, size int64, target string) error {
	return w.WriteHeader(&tar.Header{Name: name, Mode: mode, Typeflag: kind, Size: size, Linkname: target})
}

func text(name, data string) entry {
	return func(w *tar.Writer) error {
		if err := header(w, name, 0o644, tar.TypeReg, int64(len(data)), ""); err != nil {
			return err
		}
		_, err := io.WriteString(w, data)
		return err
	}
}

func link(name, target string) entry {
	return func(w *tar.Writer) error { return header(w, name, 0o777, tar.TypeSymlink, 0, target) }
}

func dir755(name string) entry {
	return func(w *tar.Writer) error { return header(w, name+"/", 0o755, tar.TypeDir, 0, "") }
}

func dir1777(name string) entry {
	return func(w *tar.Writer) error { return header(w, name+"/", 0o1777, tar.TypeDir, 0, "") }
}

func program(dir, file, name string, mode int64) entry {
	return func(w *tar.Writer) error {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if err := header(w, name, mode, tar.TypeReg, st.Size(), ""); err != nil {
			return err
		}
		_, err = io.Copy(w, f)
		return err
	}
}

// tree adds a folder's files.
func tree(dir string) entry {
	return func(w *tar.Writer) error {
		return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil || file == dir {
				return err
			}
			name, err := filepath.Rel(dir, file)
			if err != nil {
				return err
			}
			st, err := d.Info()
			if err != nil {
				return err
			}
			switch {
			case d.IsDir():
				return header(w, name+"/", int64(st.Mode().Perm()), tar.TypeDir, 0, "")
			case d.Type()&fs.ModeSymlink != 0:
				target, err := os.Readlink(file)
				if err != nil {
					return err
				}
				return link(name, target)(w)
			case d.Type().IsRegular():
				mode := int64(st.Mode().Perm())
				if st.Mode()&fs.ModeSetuid != 0 {
					mode |= 0o4000
				}
				return program(dir, name, name, mode)(w)
			}
			return fmt.Errorf("%s is neither a file, a folder nor a link", file)
		})
	}
}

// busybox adds the program with a link for each of its commands. The shell is bash, because Debian's busybox drops variables such as data-1.
func busybox(dir string) entry {
	return func(w *tar.Writer) error {
		bin := "bin"
		if _, err := os.Stat(filepath.Join(dir, bin, "busybox")); errors.Is(err, fs.ErrNotExist) {
			bin = "usr/bin"
		}
		file := filepath.Join(bin, "busybox")
		names, err := exec.Command(filepath.Join(dir, file), "--list").Output()
		if err != nil {
			return fmt.Errorf("%s --list: %w", file, err)
		}
		if err := program(dir, file, "bin/busybox", 0o755)(w); err != nil {
			return err
		}
		if err := program(dir, filepath.Join(bin, "bash-static"), "bin/sh", 0o755)(w); err != nil {
			return err
		}
		for name := range strings.FieldsSeq(string(names)) {
			if name == "busybox" || name == "sh" {
				continue
			}
			if err := link("bin/"+name, "busybox")(w); err != nil {
				return err
			}
		}
		return nil
	}
}

// A config is how an image's program is started.
type config struct {
	Entrypoint, Cmd, Env []string `json:",omitempty"`
	User                 string   `json:",omitempty"`
}

// A builder writes layers to a folder, and then an archive as docker save does.
type builder struct {
	dir    string
	images []manifest
	files  []blob // in the order in which they are written
	err    error
}

type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// A blob is a file of the archive, in memory or in the builder's folder.
type blob struct {
	name string
	data []byte
}

// layer writes a layer and returns its digest.
func (b *builder) layer(entries ...entry) string {
	if b.err != nil {
		return ""
	}
	f, err := os.CreateTemp(b.dir, "")
	if err != nil {
		b.err = err
		return ""
	}
	sum := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, sum))
	for _, add := range entries {
		if b.err = add(w); b.err != nil {
			break
		}
	}
	digest := ""
	if b.err = errors.Join(b.err, w.Close(), f.Close()); b.err == nil {
		digest = hex.EncodeToString(sum.Sum(nil))
		b.err = os.Rename(f.Name(), filepath.Join(b.dir, digest))
	}
	b.files = append(b.files, blob{name: digest})
	return digest
}

// image adds an image.
func (b *builder) image(id image.ImageID, c config, layers ...string) {
	if b.err != nil {
		return
	}
	ids := []string{}
	for _, l := range layers {
		ids = append(ids, "sha256:"+l)
	}
	data, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "config": c, "rootfs": map[string]any{"type": "layers", "diff_ids": ids}})
	if err != nil {
		b.err = err
		return
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:]) + ".json"
	b.files = append(b.files, blob{name, data})
	b.images = append(b.images, manifest{Config: name, RepoTags: []string{image.GetE2EImage(id)}, Layers: layers})
}

func (b *builder) write(out string) error {
	data, err := json.Marshal(b.images)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	for _, file := range append(b.files, blob{"manifest.json", data}) {
		add := program(b.dir, file.name, file.name, 0o644)
		if file.data != nil {
			add = text(file.name, string(file.data))
		}
		if err := add(w); err != nil {
			return errors.Join(err, f.Close(), os.Remove(out))
		}
	}
	return errors.Join(w.Close(), f.Close())
}
