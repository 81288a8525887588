package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/journal"
)

var day = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, limits journal.Limits) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func query(t *testing.T, j *journal.Journal, f journal.Filter) []string {
	t.Helper()
	var got []string
	for e, err := range j.Query(f) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.Fields["n"]))
	}
	return got
}

func TestQueryReturnsNewestFirst(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Limits{})
	for i := range 5 {
		j.Append(journal.Entry{
			Time: day.Add(time.Duration(i) * time.Minute), Account: fmt.Sprint(i % 2), Region: "us-east-1",
			Kind: journal.KindCall, Fields: map[string]any{"n": i, "operation": "Op" + fmt.Sprint(i%3)},
		})
	}
	j.Append(journal.Entry{Time: day, Account: "0", Kind: journal.KindStep, Fields: map[string]any{"n": "step"}})
	for _, tt := range []struct {
		name   string
		filter journal.Filter
		want   []string
	}{
		{"all", journal.Filter{}, []string{"step", "4", "3", "2", "1", "0"}},
		{"by account", journal.Filter{Account: "1"}, []string{"3", "1"}},
		{"by region", journal.Filter{Region: "us-east-1", Account: "0"}, []string{"4", "2", "0"}},
		{"by kind", journal.Filter{Kind: journal.KindStep}, []string{"step"}},
		{"since", journal.Filter{Since: day.Add(3 * time.Minute)}, []string{"4", "3"}},
		{"until", journal.Filter{Until: day.Add(time.Minute), Kind: journal.KindCall}, []string{"0"}},
		{"by field", journal.Filter{Fields: map[string]string{"operation": "Op1"}}, []string{"4", "1"}},
		{"by number", journal.Filter{Fields: map[string]string{"n": "2"}}, []string{"2"}},
		{"by function", journal.Filter{Match: func(e journal.Entry) bool { return e.Fields["n"] == "step" }}, []string{"step"}},
		{"none", journal.Filter{Account: "7"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, query(t, j, tt.filter)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEntriesSurviveReopening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "Open")
	j := open(t, dir, journal.Limits{})
	j.Append(journal.Entry{Kind: journal.KindCall, Fields: map[string]any{"n": 1}})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// A crash leaves half a line; only that is lost.
	f, err := os.OpenFile(filepath.Join(dir, "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026-07-01T`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir, journal.Limits{})
	j.Append(journal.Entry{Kind: journal.KindCall, Fields: map[string]any{"n": 2}})
	if diff := cmp.Diff([]string{"2", "1"}, query(t, j, journal.Filter{})); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func TestRotationBoundsTheSize(t *testing.T) {
	dir := t.TempDir()
	const limit = 8 << 10
	j := open(t, dir, journal.Limits{Bytes: limit, Queue: 10_000})
	pad := strings.Repeat("x", 100)
	for i := range 1000 {
		j.Append(journal.Entry{Kind: journal.KindCall, Fields: map[string]any{"n": i, "pad": pad}})
	}
	got := query(t, j, journal.Filter{})
	if len(got) < 20 || len(got) > 100 || got[0] != "999" || got[1] != "998" {
		t.Errorf("kept %d entries: %v", len(got), got[:min(3, len(got))])
	}
	var total int64
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > limit {
		t.Errorf("the files take %d bytes, more than %d", total, limit)
	}
	if j.Dropped() != 0 {
		t.Errorf("dropped %d", j.Dropped())
	}
}

func TestAppendNeverBlocks(t *testing.T) {
	j := open(t, t.TempDir(), journal.Limits{Queue: 4})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				j.Append(journal.Entry{Kind: journal.KindCall, Minor: i%2 == 0, Fields: map[string]any{"n": i}})
			}
		})
	}
	wg.Wait()
	if kept := len(query(t, j, journal.Filter{})); int64(kept)+j.Dropped() != 16000 {
		t.Errorf("kept %d, dropped %d", kept, j.Dropped())
	}
}

func TestUnwritableEntriesAreCountedAndSaidByClose(t *testing.T) {
	j := open(t, t.TempDir(), journal.Limits{})
	j.Append(journal.Entry{Fields: map[string]any{"n": make(chan int)}})
	j.Append(journal.Entry{Fields: map[string]any{"n": strings.Repeat("x", 2<<20)}})
	j.Append(journal.Entry{Fields: map[string]any{"n": 1}})
	if diff := cmp.Diff([]string{"1"}, query(t, j, journal.Filter{})); diff != "" {
		t.Error(diff)
	}
	if j.Dropped() != 2 {
		t.Errorf("dropped %d", j.Dropped())
	}
	if err := j.Close(); err == nil {
		t.Error("Close says nothing")
	}
}

func TestNilAndClosedJournals(t *testing.T) {
	var none *journal.Journal
	none.Append(journal.Entry{})
	none.Flush()
	if err := none.Close(); err != nil || none.Dropped() != 0 || query(t, none, journal.Filter{}) != nil {
		t.Error("a nil journal is not empty")
	}
	j := open(t, t.TempDir(), journal.Limits{})
	j.Append(journal.Entry{Fields: map[string]any{"n": 1}})
	for range 2 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	j.Append(journal.Entry{})
	if got := query(t, j, journal.Filter{}); len(got) != 1 || j.Dropped() != 1 {
		t.Errorf("after Close: %v, dropped %d", got, j.Dropped())
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(filepath.Join(file, "journal"), journal.Limits{}); err == nil || !strings.Contains(err.Error(), "opening the journal") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkAppend(b *testing.B) {
	j, err := journal.Open(b.TempDir(), journal.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close() //nolint:errcheck // a benchmark
	e := journal.Entry{Time: day, Account: "000000000000", Region: "us-east-1", Kind: journal.KindCall, Fields: map[string]any{"service": "eks", "status": 200}}
	for b.Loop() {
		j.Append(e)
	}
	b.ReportMetric(float64(j.Dropped())/float64(b.N), "dropped/op")
}

func TestNothingIsToldOfBeforeAReset(t *testing.T) {
	j := open(t, t.TempDir(), journal.Limits{})
	n := 0
	call := func(account string) {
		j.Append(journal.Entry{Time: day, Account: account, Kind: journal.KindCall, Fields: map[string]any{"n": n}})
		n++
	}
	reset := func(account string) { j.Append(journal.Entry{Time: day, Account: account, Kind: journal.KindReset}) }
	call("a")
	reset("")
	call("a")
	call("b")
	reset("a")
	call("a")
	call("b")
	for account, want := range map[string][]string{"": {"4", "3", "2"}, "a": {"3"}, "b": {"4", "2"}} {
		if diff := cmp.Diff(want, query(t, j, journal.Filter{Account: account})); diff != "" {
			t.Errorf("of account %q: %s", account, diff)
		}
	}
}

// Fields are compared as text, however JSON writes them.
func TestFieldsOfAllForms(t *testing.T) {
	j := open(t, t.TempDir(), journal.Limits{})
	values := []any{
		"pod/web-1", "a b", `"quoted"`, `back\slash`, "<&>", "é", "", "1000000", 1000000, 1e6, 0.5, 5, true, false, nil, []string{"a", "b"},
		map[string]any{"k": "v"}, `"kind":"reset"`, time.Second,
	}
	for i, v := range values {
		for _, kind := range []journal.Kind{journal.KindCall, journal.KindStep} {
			j.Append(journal.Entry{Time: day, Kind: kind, Fields: map[string]any{"n": i, "v": v}})
		}
	}
	read := map[int]any{} // the values as JSON gives them back
	for e, err := range j.Query(journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		read[int(e.Fields["n"].(float64))] = e.Fields["v"]
	}
	for i := range values {
		text := fmt.Sprint(read[i])
		var want []string
		for k := len(values) - 1; k >= 0; k-- {
			if fmt.Sprint(read[k]) == text {
				want = append(want, fmt.Sprint(k))
			}
		}
		if diff := cmp.Diff(want, query(t, j, journal.Filter{Kind: journal.KindStep, Fields: map[string]string{"v": text}})); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
