package child

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// hostFiles are flags with the names of files that kubectl would read itself, or write.
var hostFiles = []string{"kustomize", "from-file", "from-env-file", "cert", "key", "openapi-patch-file", "profile", "profile-output", "output-directory", "prune-allowlist-file"}

// path makes a name absolute.
func (p *process) path(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join("/", p.job.Dir, name)
}

// read reads one of the machine's files.
func (p *process) read(name string) ([]byte, error) {
	b, err := p.files.ReadFile(p.path(name))
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Op, pe.Path = "open", name
	}
	return b, err
}

// readFiles replaces the flags that name files of the machine by the files' contents. kubectl reads what -f names from its
// standard input.
func (p *process) readFiles(cmd *cobra.Command) error {
	flags := cmd.Flags()
	for _, name := range hostFiles {
		if f := flags.Lookup(name); f != nil && f.Changed {
			return fmt.Errorf("the flag --%s does not work on a simulated machine; run kubectl on your own machine", name)
		}
	}
	if f := flags.Lookup("output"); f != nil && strings.Contains(f.Value.String(), "-file") {
		return fmt.Errorf("the output format %s does not work on a simulated machine; give the template itself", f.Value)
	}
	if f := flags.Lookup("template"); f != nil && f.Changed && strings.HasSuffix(flags.Lookup("output").Value.String(), "file") {
		return errors.New("templates in files do not work on a simulated machine; give the template itself")
	}
	if f := flags.Lookup("patch-file"); f != nil && f.Changed {
		b, err := p.read(f.Value.String())
		if err != nil {
			return fmt.Errorf("unable to read patch file: %w", err)
		}
		if err := errors.Join(f.Value.Set(""), flags.Set("patch", string(b))); err != nil {
			return err
		}
	}
	f := flags.Lookup("filename")
	names, ok := pflag.SliceValue(nil), false
	if f != nil {
		names, ok = f.Value.(pflag.SliceValue)
	}
	if !ok || !f.Changed {
		p.feed(p.job.Stdin)
		return nil
	}
	all := names.GetSlice()
	recursive, _ := flags.GetBool("recursive") // false if there is no such flag
	var documents [][]byte
	for _, name := range all {
		found, err := p.manifests(name, recursive)
		if err != nil {
			return err
		}
		documents = append(documents, found...)
	}
	if len(all) == 1 && all[0] != "-" && len(documents) == 1 {
		p.source = all[0]
	}
	text, err := joined(documents)
	if err != nil {
		return err
	}
	p.feed(text)
	return names.Replace([]string{"-"})
}

// manifests returns the contents of what -f names: a file, the manifests in a folder, a pattern, a URL, or - for standard
// input.
func (p *process) manifests(name string, recursive bool) ([][]byte, error) {
	switch {
	case name == "-":
		return [][]byte{p.job.Stdin}, nil
	case strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://"):
		reply, err := p.run([]string{"curl", "-sSfL", name}, p.job.Env)
		if err == nil && (reply.Error != "" || reply.Status != 0) {
			err = fmt.Errorf("unable to read URL %q", name)
		}
		return [][]byte{reply.Stdout}, err
	}
	at := p.path(name)
	i, err := p.files.Stat(at)
	if err != nil {
		var out [][]byte
		for _, r := range p.files.Image() {
			if ok, _ := path.Match(at, r.Path); ok && r.Mode.IsRegular() {
				out = append(out, r.Data)
			}
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("the path %q does not exist", name)
		}
		return out, nil
	}
	if !i.IsDir() {
		b, err := p.read(name)
		return [][]byte{b}, err
	}
	var out [][]byte
	for _, r := range p.files.Image() {
		below, ok := strings.CutPrefix(r.Path, strings.TrimSuffix(at, "/")+"/")
		if ok && r.Mode.IsRegular() && (recursive || !strings.Contains(below, "/")) && slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(below)) {
			out = append(out, r.Data)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("error reading [%s]: recognized file extensions are [.json .yaml .yml]", name)
	}
	return out, nil
}

// joined returns several manifests as one.
func joined(documents [][]byte) ([]byte, error) {
	if len(documents) == 1 {
		return documents[0], nil
	}
	var out bytes.Buffer
	for _, d := range documents {
		if bytes.HasPrefix(bytes.TrimSpace(d), []byte("{")) {
			var err error
			if d, err = yaml.JSONToYAML(d); err != nil {
				return nil, err
			}
		}
		out.WriteString("---\n")
		out.Write(d)
		out.WriteString("\n")
	}
	return out.Bytes(), nil
}
