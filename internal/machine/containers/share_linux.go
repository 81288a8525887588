package containers

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// unpackTime bounds how long an archive may take.
const unpackTime = 20 * time.Minute

// retryTime is when sharing is tried again after it has failed for a reason that may pass, such as a full disk.
const retryTime = 10 * time.Second

// chainID keeps the names of layers from being paths.
var chainID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// share unpacks archives for all machines, and removes layers that none needs, until the runtime ends.
func (r *Runtime) share() {
	for r.ctx.Err() == nil {
		run, err := r.await(r.ctx)
		if err != nil {
			return
		}
		failed := map[string]time.Time{} // what a run cannot unpack, it does not try again
		for again := true; again; {
			var retry <-chan time.Time // until then machines wait for their images
			if err := r.shareAll(run.ctx, failed); err != nil && run.ctx.Err() == nil {
				r.cfg.Log.Warn("sharing the layers of images", "err", err)
				retry = time.After(retryTime)
			}
			select {
			case <-r.unshared:
			case <-retry:
			case <-run.ctx.Done():
				again = false
			}
		}
	}
}

func (r *Runtime) shareAll(ctx context.Context, failed map[string]time.Time) error {
	names, err := r.Images()
	if err != nil {
		return err
	}
	dir := filepath.Join(r.cfg.Dir, imageDir)
	changed := map[string]time.Time{}
	for _, name := range names {
		st, err := os.Stat(filepath.Join(dir, name+layers.Archive))
		if err != nil {
			return err
		}
		changed[name] = st.ModTime()
	}
	// Machines import them in this order.
	slices.SortStableFunc(names, func(a, b string) int { return changed[a].Compare(changed[b]) })
	var errs []error
	for _, name := range names {
		st, err := os.Stat(filepath.Join(dir, name+layers.Shared))
		if err == nil && st.ModTime().Equal(changed[name]) && (st.Size() > 0 || failed[name].Equal(changed[name])) {
			continue
		}
		switch err := r.unpack(ctx, name); {
		case ctx.Err() != nil || lost(err):
			return err
		case errors.Is(err, errLeft):
			failed[name] = changed[name]
			r.refused.Store(name, whyRefused(err))
			r.cfg.Log.Warn("each machine unpacks an archive of images itself", "archive", name, "err", err)
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(errs, r.removeLayers(ctx))...)
}

// whyRefused returns why an archive cannot be unpacked, in words for the people who have loaded it.
func whyRefused(err error) error {
	if strings.Contains(err.Error(), "no match for platform") { // containerd says so in words only
		return errPlatform
	}
	return err
}

// errLeft says that machines are told to unpack an archive themselves.
var errLeft = errors.New("not unpacked for all machines")

// unpack lets the host unpack an archive. If it cannot, machines are told to do that themselves.
func (r *Runtime) unpack(ctx context.Context, name string) (err error) {
	dir := filepath.Join(r.cfg.Dir, imageDir)
	archive, err := os.Open(filepath.Join(dir, name+layers.Archive))
	if err != nil {
		return err
	}
	defer archive.Close()
	st, err := archive.Stat()
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = out.Close()
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	failure := r.unpackTo(ctx, archive, out)
	if failure != nil {
		// A full disk may have room later. The host's errors arrive as text, without an errno.
		if ctx.Err() != nil || lost(failure) || strings.Contains(failure.Error(), syscall.ENOSPC.Error()) {
			return failure
		}
		if err := out.Truncate(0); err != nil {
			return err
		}
	}
	if err := errors.Join(out.Chmod(0o644), out.Sync(), os.Chtimes(out.Name(), time.Time{}, st.ModTime())); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), filepath.Join(dir, name+layers.Shared)); err != nil {
		return err
	}
	if failure != nil {
		return fmt.Errorf("%w: %w", errLeft, failure)
	}
	return nil
}

// lost reports whether the host has ended, which says nothing about what it was asked for.
func lost(err error) bool {
	return errors.Is(err, machine.ErrOff) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (r *Runtime) unpackTo(ctx context.Context, archive, out *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, unpackTime)
	defer cancel()
	folder, err := tree(filepath.Join(r.cfg.Dir, layerDir))
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := r.ask(ctx, inside.HostRequest{Unpack: true}, folder, archive, out); err != nil {
		return err
	}
	all, err := layersOf(out)
	if err != nil {
		return err
	}
	names, err := os.OpenRoot(filepath.Join(r.cfg.Dir, layerDir))
	if err != nil {
		return err
	}
	defer names.Close()
	for _, l := range all {
		if err := names.Remove(l + "/" + layers.Retired); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// layersOf returns the layers of an archive without layers.
func layersOf(f *os.File) (all []string, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeDir {
			continue
		}
		l := path.Base(h.Name)
		if !chainID.MatchString(l) {
			return nil, fmt.Errorf("invalid name of a layer %q", l)
		}
		all = append(all, l)
	}
}

// removeLayers removes the layers that no archive has, unless a machine may still use them: they go with its disk.
func (r *Runtime) removeLayers(ctx context.Context) error {
	dir := filepath.Join(r.cfg.Dir, imageDir)
	shared, err := filepath.Glob(filepath.Join(dir, "*"+layers.Shared))
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, name := range shared {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		all, err := layersOf(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, l := range all {
			needed[l] = true
		}
	}
	// The names in the folder are those of layers: it is written by a process that has unpacked nothing else there.
	folder, err := os.OpenRoot(filepath.Join(r.cfg.Dir, layerDir))
	if err != nil {
		return err
	}
	defer folder.Close()
	entries, err := os.ReadDir(folder.Name())
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if needed[name] {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if chainID.MatchString(name) {
			used, err := r.retire(folder, name)
			if err != nil {
				return err
			}
			if used {
				continue
			}
			// A layer that is half removed must not look like a whole one.
			if err := folder.Rename(name, ".removed-"+name); err != nil {
				return err
			}
			name = ".removed-" + name
		}
		if err := folder.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// unsettled is what Retired says until the machines are known.
const unsettled = "?"

// retire keeps more machines from beginning to use a layer, and reports whether one may still use it.
func (r *Runtime) retire(folder *os.Root, layer string) (used bool, err error) {
	name := layer + "/" + layers.Retired
	write := func(text string) error {
		if err := folder.WriteFile(name+".new", []byte(text), 0o644); err != nil {
			return err
		}
		return folder.Rename(name+".new", name)
	}
	before, err := folder.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		before, err = []byte(unsettled), write(unsettled)
	}
	if err != nil {
		return false, err
	}
	disks, err := os.ReadDir(filepath.Join(r.cfg.Dir, diskDir))
	if err != nil {
		return false, err
	}
	var left []string
	for _, d := range disks {
		if string(before) == unsettled || slices.Contains(strings.Fields(string(before)), d.Name()) {
			left = append(left, d.Name())
		}
	}
	if len(left) == 0 {
		return false, nil
	}
	return true, write(strings.Join(left, "\n"))
}
