package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

func openDir(t *testing.T, dir string, expected ...string) (*store.Store, error) {
	t.Helper()
	return store.Open(t.Context(), store.Config{Dir: dir, Log: testlog.New(t, expected...)})
}

func TestDataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	for round := range 3 {
		s, err := openDir(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := things.Get(s, key("rounds")); v.Count != round {
			t.Fatalf("round %d found %d", round, v.Count)
		}
		put(t, s, key("rounds"), thing{Count: round + 1})
		st, err := os.Stat(dir)
		if err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("folder is %v, %v", st.Mode(), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDataFolderInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := openDir(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDir(t, dir)
	if !errors.Is(err, store.ErrInUse) {
		t.Fatalf("got %v", err)
	}
	oneLine(t, err, "process", dir, "drydock down")
	put(t, s, key("still"), thing{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = openDir(t, dir)
	if err != nil {
		t.Fatalf("after the other closed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnusableDataFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly := filepath.Join(t.TempDir(), "ro")
	if err := os.Mkdir(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dir  string
		says []string
		root bool // root gets no error
	}{
		"none":         {"", []string{"--data-dir"}, false},
		"a file":       {file, []string{file, "not a directory", "--data-dir"}, false},
		"under a file": {filepath.Join(file, "x"), []string{"not a directory", "--data-dir"}, false},
		"not writable": {readOnly, []string{readOnly, "permission denied", "give user"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.root && os.Getuid() == 0 {
				t.Skip("root may write everywhere")
			}
			s, err := openDir(t, tc.dir)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			oneLine(t, err, tc.says...)
		})
	}
}

func TestDamagedData(t *testing.T) {
	dir := t.TempDir()
	s, err := openDir(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "etcd", "member", "snap", "db")
	if err := os.WriteFile(db, []byte(strings.Repeat("no database ", 10000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = openDir(t, dir, "invalid database")
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	oneLine(t, err, dir)
	// Nothing is left behind that would keep a repaired folder from opening.
	if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	s, err = openDir(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestLongPath(t *testing.T) {
	runtimeDir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", runtimeDir)
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	s, err := openDir(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(endpointOf(s), "unix://")
	if len(socket) > 100 || !strings.HasPrefix(socket, runtimeDir) {
		t.Errorf("socket %s", socket)
	}
	if st, err := os.Stat(filepath.Dir(socket)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("socket folder: %v %v", st, err)
	}
	direct := dialEtcd(t, endpointOf(s))
	if _, err := direct.Get(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(runtimeDir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	// A crash leaves the socket's folder; the next Open removes it.
	crashed, err := os.MkdirTemp(runtimeDir, "drydock-store-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "socket"), []byte(crashed), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = openDir(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(crashed); !os.IsNotExist(err) {
		t.Errorf("crashed socket folder: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func oneLine(t *testing.T, err error, says ...string) {
	t.Helper()
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("not one line: %q", err)
	}
	for _, w := range says {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}
