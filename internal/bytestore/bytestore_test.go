package bytestore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/bytestore"
)

func open(t testing.TB, dir string, edit func(*bytestore.Config)) *bytestore.Store {
	t.Helper()
	cfg := bytestore.Config{Dir: dir, Ephemeral: true}
	if edit != nil {
		edit(&cfg)
	}
	s, err := bytestore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func do(t testing.TB, s *bytestore.Store, writes ...bytestore.Write) {
	t.Helper()
	if err := s.Do(writes...).Wait(); err != nil {
		t.Fatal(err)
	}
}

func closed(t testing.TB, s *bytestore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// contents returns everything in the store's buckets of kind k.
func contents(t testing.TB, s *bytestore.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, b := range s.Buckets("k") {
		err := s.Scan(b, nil, func(key, value []byte, err error) error {
			out[b.Account+"/"+b.Name+"/"+string(key)] = string(value)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func same(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s:\ngot  %v\nwant %v", what, got, want)
	}
}

var one = bytestore.Bucket{Account: "111111111111", Kind: "k", Name: "one"}

// TestAgainstAMap compares random writes, drops and reopenings with a map.
func TestAgainstAMap(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		dir, want := t.TempDir(), map[string]string{}
		s := open(t, dir, nil)
		for range 150 {
			b := bytestore.Bucket{Account: fmt.Sprintf("%012d", rnd.IntN(2)), Kind: "k", Name: string('a' + rune(rnd.IntN(3)))}
			key := strconv.Itoa(rnd.IntN(20))
			forget := func(prefix string) {
				for k := range want {
					if strings.HasPrefix(k, prefix) {
						delete(want, k)
					}
				}
			}
			switch n := rnd.IntN(100); {
			case n < 60:
				v := strings.Repeat(key, rnd.IntN(3000))
				do(t, s, bytestore.Put(b, []byte(key), []byte(v)))
				want[b.Account+"/"+b.Name+"/"+key] = v
			case n < 85:
				do(t, s, bytestore.Delete(b, []byte(key)))
				delete(want, b.Account+"/"+b.Name+"/"+key)
			case n < 92:
				do(t, s, bytestore.Drop(b))
				forget(b.Account + "/" + b.Name + "/")
			case n < 94:
				if err := s.Reset(t.Context(), b.Account); err != nil {
					t.Fatal(err)
				}
				forget(b.Account + "/")
			case n < 95:
				if err := s.Reset(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
				forget("")
			default:
				before := s.Used(b.Account)
				closed(t, s)
				s = open(t, dir, nil)
				if after := s.Used(b.Account); after != before {
					t.Fatalf("seed %d: %d bytes were used, %d after opening again", seed, before, after)
				}
			}
		}
		same(t, fmt.Sprintf("seed %d", seed), contents(t, s), want)
		for _, b := range s.Buckets("k") {
			do(t, s, bytestore.Drop(b))
		}
		if a, b := s.Used("000000000000"), s.Used("000000000001"); a != 0 || b != 0 {
			t.Errorf("seed %d: an empty store has %d and %d bytes", seed, a, b)
		}
		closed(t, s)
	}
}

func TestRoom(t *testing.T) {
	s := open(t, t.TempDir(), func(c *bytestore.Config) { c.Room = 10_000 })
	defer closed(t, s)
	do(t, s, bytestore.Put(one, []byte("a"), make([]byte, 8000)))
	if err := s.Room(one.Account, 3000); !errors.Is(err, bytestore.ErrFull) {
		t.Errorf("too much: %v", err)
	}
	if err := s.Room("222222222222", 3000); err != nil {
		t.Errorf("another account: %v", err)
	}
	do(t, s, bytestore.Put(one, []byte("a"), make([]byte, 9500)), bytestore.Delete(one, []byte("a"))) // Room does not limit it
	if err := s.Room(one.Account, 9000); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

// TestSpaceIsReclaimed: deleted data is overwritten, and its space is returned to the disk when the store opens.
func TestSpaceIsReclaimed(t *testing.T) {
	dir := t.TempDir()
	small := func(c *bytestore.Config) { c.CompactAbove = 1 << 20 }
	s := open(t, dir, small)
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "bytes.db"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	do(t, s, bytestore.Put(one, []byte("stays"), []byte("v")))
	for i := range 300 { // 75 MB in total
		key := []byte(strconv.Itoa(i))
		do(t, s, bytestore.Put(one, key, make([]byte, 250_000)))
		do(t, s, bytestore.Delete(one, key))
	}
	if n := size(); n > 40<<20 {
		t.Errorf("%d bytes for what was deleted", n)
	}
	closed(t, s)
	s = open(t, dir, small)
	defer closed(t, s)
	if n := size(); n > 1<<20 {
		t.Errorf("%d bytes after compaction", n)
	}
	same(t, "what stays", contents(t, s), map[string]string{one.Account + "/one/stays": "v"})
}

func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	mark := bytes.Repeat([]byte("payload."), 100)
	do(t, s, bytestore.Put(one, []byte("a"), mark), bytestore.Put(one, []byte("b"), []byte("good")))
	closed(t, s)
	path := filepath.Join(dir, "bytes.db")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[bytes.Index(raw, mark)+100] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil)
	defer closed(t, s)
	if _, err := s.Get(one, []byte("a")); !errors.Is(err, bytestore.ErrDamaged) {
		t.Errorf("a damaged value: %v", err)
	}
	if v, err := s.Get(one, []byte("b")); err != nil || string(v) != "good" {
		t.Errorf("its neighbour: %q %v", v, err)
	}
	if _, err := s.Get(one, []byte("c")); !errors.Is(err, bytestore.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
}

// TestTruncated: a file that was cut off anywhere is rejected, or it still has its contents.
func TestTruncated(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	for i := range 40 {
		do(t, s, bytestore.Put(one, []byte(strconv.Itoa(i)), bytes.Repeat([]byte{byte(i)}, 700)))
	}
	want := contents(t, s)
	closed(t, s)
	whole, err := os.ReadFile(filepath.Join(dir, "bytes.db"))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for n := 1; n < len(whole); n += 509 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "bytes.db"), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := bytestore.Open(bytestore.Config{Dir: dir, Ephemeral: true})
		if err != nil {
			refused++
			continue
		}
		same(t, fmt.Sprintf("cut at %d of %d", n, len(whole)), contents(t, s), want)
		closed(t, s)
	}
	if refused == 0 {
		t.Error("no cut was noticed")
	}
}

// TestTornCommits simulates a machine that stops in the middle of a commit: any of the changed pages may be on disk,
// and any beginning of the page that makes them valid. The store must then have its contents from before or after the
// commit, and nothing in between.
func TestTornCommits(t *testing.T) {
	const page = 4096
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	path := filepath.Join(dir, "bytes.db")
	read := func() []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s := open(t, dir, nil)
	do(t, s, bytestore.Put(one, []byte("first"), nil), bytestore.Put(one, []byte("x"), []byte("y")))
	for round := range 60 {
		was, before := read(), contents(t, s)
		var writes []bytestore.Write
		for range 1 + rnd.IntN(4) {
			key := []byte(strconv.Itoa(rnd.IntN(12)))
			if rnd.IntN(3) == 0 {
				writes = append(writes, bytestore.Delete(one, key))
			} else {
				writes = append(writes, bytestore.Put(one, key, bytes.Repeat(key, 1+rnd.IntN(9000))))
			}
		}
		do(t, s, writes...)
		is, after := read(), contents(t, s)
		var data, meta []int
		for p := 0; p*page < len(is); p++ {
			if p*page < len(was) && bytes.Equal(was[p*page:(p+1)*page], is[p*page:(p+1)*page]) {
				continue
			}
			if p < 2 {
				meta = append(meta, p)
			} else {
				data = append(data, p)
			}
		}
		for range 6 {
			torn := append(bytes.Clone(was), make([]byte, max(0, len(is)-len(was)))...)
			all := rnd.IntN(3) == 0 // only then may the meta page be there, too
			for _, p := range data {
				if all || rnd.IntN(2) == 0 {
					copy(torn[p*page:(p+1)*page], is[p*page:])
				}
			}
			if all {
				for _, p := range meta {
					copy(torn[p*page:p*page+rnd.IntN(page+1)], is[p*page:])
				}
			}
			other := t.TempDir()
			if err := os.WriteFile(filepath.Join(other, "bytes.db"), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			cut := open(t, other, nil)
			got := fmt.Sprint(contents(t, cut))
			closed(t, cut)
			if got != fmt.Sprint(before) && (!all || got != fmt.Sprint(after)) {
				t.Fatalf("round %d: neither before nor after:\n%s", round, got)
			}
		}
	}
	closed(t, s)
}

const childEnv = "BYTESTORE_CHILD"

// TestKilled kills a process that writes; everything that it reported as written must be there.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		write(t, dir)
		return
	}
	dir := t.TempDir()
	acked := map[string]bool{}
	for round := range 4 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var lines bytes.Buffer
		chunk := make([]byte, 4096)
		for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until) || lines.Len() == 0; {
			n, err := out.Read(chunk)
			lines.Write(chunk[:n])
			if err != nil {
				t.Fatalf("the child ended: %v\n%s", err, &lines)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		whole := lines.String()
		for line := range strings.Lines(whole[:strings.LastIndexByte(whole, '\n')+1]) {
			acked[strings.TrimSpace(line)] = true
		}
		s := open(t, dir, nil)
		got := contents(t, s)
		for key := range acked {
			if v := got[one.Account+"/one/"+key]; v != strings.Repeat(key, 50) {
				t.Fatalf("round %d: %s has %q", round, key, v)
			}
		}
		closed(t, s)
	}
	if len(acked) < 8 {
		t.Errorf("only %d writes in all", len(acked))
	}
}

func write(t *testing.T, dir string) {
	s := open(t, dir, func(c *bytestore.Config) { c.Ephemeral = false })
	var mu sync.Mutex
	start := time.Now().UnixNano()
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d-%d", start, w, i)
				if err := s.Do(bytestore.Put(one, []byte(key), []byte(strings.Repeat(key, 50)))).Wait(); err != nil {
					panic(err)
				}
				mu.Lock()
				fmt.Println(key)
				mu.Unlock()
			}
		}()
	}
	select {}
}

func BenchmarkCommits(b *testing.B) {
	s := open(b, b.TempDir(), func(c *bytestore.Config) { c.Ephemeral = false })
	defer closed(b, s)
	var n int64
	var mu sync.Mutex
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			key := binary.BigEndian.AppendUint64(nil, uint64(n))
			mu.Unlock()
			do(b, s, bytestore.Put(one, key, make([]byte, 1000)))
		}
	})
}

func TestRange(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	defer closed(t, s)
	b := bytestore.Bucket{Account: "a", Kind: "k", Name: "n"}
	var writes []bytestore.Write
	for _, k := range []string{"a", "b1", "b2", "b3", "c"} {
		writes = append(writes, bytestore.Put(b, []byte(k), []byte("value of "+k)))
	}
	do(t, s, writes...)
	for _, tt := range []struct {
		from, to  string
		backwards bool
		most      int
		want      string
	}{
		{"b", "c", false, 9, "b1 b2 b3"},
		{"b", "c", true, 9, "b3 b2 b1"},
		{"b2", "b3", false, 9, "b2"},
		{"b2", "b3", true, 9, "b2"},
		{"", "d", false, 2, "a b1"},
		{"", "d", true, 2, "c b3"},
		{"d", "e", false, 9, ""},
		{"d", "e", true, 9, ""},
		{"", "a", true, 9, ""},
		{"c", "b", false, 9, ""},
	} {
		var got []string
		err := s.Range(b, []byte(tt.from), []byte(tt.to), tt.backwards, func(key []byte, value func() ([]byte, error)) bool {
			v, err := value()
			if err != nil || string(v) != "value of "+string(key) {
				t.Errorf("%s: %q %v", key, v, err)
			}
			got = append(got, string(key))
			return len(got) < tt.most
		})
		if s := strings.Join(got, " "); err != nil || s != tt.want {
			t.Errorf("from %q to %q, backwards %v: %s %v, want %s", tt.from, tt.to, tt.backwards, s, err, tt.want)
		}
	}
	if n := s.Size(b); n != s.Used("a") || n == 0 {
		t.Errorf("size %d of %d", n, s.Used("a"))
	}
}
