package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clocks "k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func openFaults(t *testing.T, st *store.Store, clk clocks.WithTicker) (*Keeper, func()) {
	t.Helper()
	f := New(Config{Store: st, Clock: clk, Set: fault.NewSet(fault.Config{Clock: clk}), Log: testkit.Log(t)})
	f.Refresh()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	return f, func() {
		go func() { done <- f.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFaultsAreKept(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{})
	account := srv.Account(t)
	f, _ := openFaults(t, srv.Store, clocks.RealClock{})
	place := fault.Fault{Kind: fault.Capacity, Account: account, Region: testkit.Region}
	set, err := f.add(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := openFaults(t, srv.Store, clocks.RealClock{}) // as after a crash
	if got := again.set.List(account, ""); len(got) != 1 || got[0].ID != set.ID {
		t.Errorf("after a restart: %+v", got)
	}
	for range fault.MaxPerRegion - 1 {
		if _, err := f.add(t.Context(), place); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.add(t.Context(), place); err == nil || !strings.Contains(err.Error(), "drydock fault clear") {
		t.Errorf("the 257th fault: %v", err)
	}
	gone, err := f.clear(t.Context(), account, testkit.Region, func(fault.Fault) bool { return true })
	if err != nil || len(gone) != fault.MaxPerRegion || len(f.set.List(account, "")) != 0 {
		t.Errorf("%d cleared, %d left: %v", len(gone), len(f.set.List(account, "")), err)
	}
}

func TestFaultsEnd(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{})
	account := srv.Account(t)
	clk := testclock.NewFakeClock(time.Now())
	f, run := openFaults(t, srv.Store, clk)
	var mu sync.Mutex
	var interrupted []string
	f.cfg.Interrupt = func(_ context.Context, x *fault.Fault) error {
		mu.Lock()
		defer mu.Unlock()
		interrupted = append(interrupted, x.Instance)
		if len(interrupted) == 1 {
			return errors.New("not now") // it is tried again
		}
		return nil
	}
	for _, x := range []fault.Fault{
		{Kind: fault.Isolate, Instance: "i-1", Until: clk.Now().Add(time.Minute)},
		{Kind: fault.Terminate, Instance: "i-2", Until: clk.Now().Add(time.Minute)},
		{Kind: fault.Throttle, Operation: "ec2:*", Count: 1},
		{Kind: fault.Throttle, Operation: "eks:*", Count: 5},
		{Kind: fault.Zone, Zone: "us-east-1a"},
	} {
		x.Account, x.Region = account, testkit.Region
		if _, err := f.add(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	run()
	for _, service := range []string{"ec2", "eks", "eks"} {
		f.set.Call(fault.Call{Account: account, Region: testkit.Region, Services: [2]string{service}, Operation: "X"})
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if clk.HasWaiters() {
			clk.Step(10 * time.Second) // few polls, so that their pauses do not add up
		}
		items := faultRecords.All(srv.Store, store.Scope{Account: account})
		kinds, used := map[fault.Kind]int{}, int64(0)
		for _, it := range items {
			kinds[it.Value.Kind]++
			used += it.Value.Used
		}
		if len(items) != 2 || kinds[fault.Throttle] != 1 || kinds[fault.Zone] != 1 || used != 2 {
			return errors.New("not over yet")
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	if len(interrupted) != 2 || interrupted[1] != "i-2" {
		t.Errorf("interrupted %q, want i-2 twice", interrupted)
	}
}

// However many are set concurrently, all are in force.
func TestFaultsSetAtOnce(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{})
	account := srv.Account(t)
	f, _ := openFaults(t, srv.Store, clocks.RealClock{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if _, err := f.add(t.Context(), fault.Fault{Kind: fault.Capacity, Account: account, Region: testkit.Region}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := f.set.List(account, ""); len(got) != 64 {
		t.Errorf("%d faults are in force, of 64", len(got))
	}
}

// Errors are reported even if another fault was cleared in the meantime.
func TestFaultsThatEndBadly(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{})
	account, now := srv.Account(t), time.Now()
	f, _ := openFaults(t, srv.Store, testclock.NewFakeClock(now))
	all := []fault.Fault{
		{ID: "F-1", Kind: fault.Terminate, Instance: "i-1", Until: now},
		{ID: "F-2", Kind: fault.Throttle, Operation: "ec2:*", Count: 5},
	}
	for i := range all {
		all[i].Account, all[i].Region = account, testkit.Region
		if err := srv.Store.Update(t.Context(), func(tx *store.Tx) error { return faultRecords.Create(tx, faultKey(all[i]), all[i]) }); err != nil {
			t.Fatal(err)
		}
	}
	f.Refresh()
	f.set.Call(fault.Call{Account: account, Region: testkit.Region, Services: [2]string{"ec2"}, Operation: "X"})
	f.cfg.Interrupt = func(ctx context.Context, _ *fault.Fault) error {
		return errors.Join(errors.New("not now"), srv.Store.Update(ctx, func(tx *store.Tx) error {
			faultRecords.Delete(tx, faultKey(all[1]))
			return nil
		}))
	}
	if _, err := f.settle(t.Context()); err == nil || err.Error() != "F-1: not now" {
		t.Errorf("settled: %v", err)
	}
}

func TestFaultPages(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{})
	account := srv.Account(t)
	f, _ := openFaults(t, srv.Store, clocks.RealClock{})
	set, err := f.add(t.Context(), fault.Fault{Kind: fault.Capacity, Account: account, Region: testkit.Region})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	(&API{Keeper: f}).Handle(mux)
	page := "/_drydock/faults?account=" + account + "&region=" + testkit.Region
	for _, tt := range []struct {
		name, method, page, body, want string
		status, left                   int
	}{
		{"a member nobody knows", "POST", page, `{"kind":"capacity","region":"us-east-1","instancetypes":"m5.*"}`, `unknown field "instancetypes"`, 400, 1},
		{"one that is set and one that is not", "DELETE", page + "&id=" + set.ID + "&id=F-none", "", "no fault F-none is set in " + testkit.Region, 404, 1},
		{"one of another kind", "DELETE", page + "&kind=zone&id=" + set.ID, "", "no fault " + set.ID, 404, 1},
		{"one that is set", "DELETE", page + "&id=" + set.ID, "", set.ID, 200, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(tt.method, tt.page, strings.NewReader(tt.body)))
			if left := len(f.set.List(account, "")); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || left != tt.left {
				t.Errorf("%d %s; %d left", w.Code, w.Body, left)
			}
		})
	}
}

type instances map[string]ec2types.InstanceLifecycleType

func (i instances) InstanceByID(_, _, id string) (ec2types.Instance, bool) {
	lifecycle, ok := i[id]
	return ec2types.Instance{InstanceId: &id, InstanceLifecycle: lifecycle, State: &ec2types.InstanceState{Name: "running"}}, ok
}

func (instances) DescribeVpcs(context.Context, *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	return &awsec2.DescribeVpcsOutput{}, nil
}

// TestSpotInstancesAreWarned: for as long as the daemon's timing says, unless the user does.
func TestSpotInstancesAreWarned(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{})
	account := srv.Account(t)
	clk := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	f, _ := openFaults(t, srv.Store, clk)
	ended := map[string]bool{}
	f.cfg.Interrupt = func(_ context.Context, f *fault.Fault) error { ended[f.Instance] = true; return nil }
	mux := http.NewServeMux()
	(&API{Keeper: f, EC2: instances{"i-spot": "spot", "i-spot2": "spot", "i-spot3": "spot", "i-1": ""}, SpotWarning: 2 * time.Minute}).Handle(mux)
	for _, tt := range []struct {
		instance, until string
		left            time.Duration // 0: it is gone at once
	}{
		{"i-spot", "", 2 * time.Minute}, {"i-spot2", "2026-03-01T12:00:07Z", 7 * time.Second}, {"i-spot3", "2026-03-01T12:00:00Z", 0}, {"i-1", "", 0},
	} {
		body, _ := json.Marshal(fault.Fault{Kind: fault.Terminate, Account: account, Region: testkit.Region, Instance: tt.instance})
		if tt.until != "" {
			body = []byte(strings.Replace(string(body), "{", `{"until":"`+tt.until+`",`, 1))
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("POST", "/_drydock/faults", bytes.NewReader(body)))
		var got fault.Fault
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || ended[tt.instance] != (tt.left == 0) || tt.left > 0 && got.Until.Sub(clk.Now()) != tt.left {
			t.Errorf("%s: %d %s, ended %v", tt.instance, w.Code, w.Body, ended[tt.instance])
		}
	}
}

// A slow fault does not delay others, and one that can no longer happen is over.
func TestFaultsThatHappenOnce(t *testing.T) {
	srv := testkit.NewServer(t, testkit.Config{})
	account, now := srv.Account(t), time.Now()
	clk := testclock.NewFakeClock(now)
	f, _ := openFaults(t, srv.Store, clk)
	fast := make(chan struct{})
	var cleared []string
	f.cfg.Cleared = func(x *fault.Fault) error { cleared = append(cleared, x.Cluster); return nil }
	f.cfg.Interrupt = func(ctx context.Context, x *fault.Fault) error {
		switch x.Cluster {
		case "slow":
			select {
			case <-fast:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		case "gone":
			return Moot(errors.New("no cluster"))
		case "busy":
			return errors.New("not now")
		}
		close(fast)
		return nil
	}
	for _, cluster := range []string{"slow", "gone", "busy", "fast", "later"} {
		until := now.Add(time.Minute)
		if cluster == "later" {
			until = now.Add(time.Hour)
		}
		if _, err := f.add(t.Context(), fault.Fault{Kind: fault.EndOfSupport, Cluster: cluster, Until: until, Account: account, Region: testkit.Region}); err != nil {
			t.Fatal(err)
		}
	}
	clk.Step(2 * time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := f.settle(ctx); err == nil || !strings.HasSuffix(err.Error(), ": not now") {
		t.Errorf("settled: %v", err)
	}
	left := map[string]bool{}
	for _, x := range f.set.List(account, "") {
		left[x.Cluster] = true
	}
	if len(left) != 2 || !left["busy"] || !left["later"] {
		t.Errorf("left: %v", left)
	}
	if _, err := f.clear(t.Context(), account, testkit.Region, func(x fault.Fault) bool { return x.Cluster == "later" }); err != nil || len(cleared) != 1 || cleared[0] != "later" {
		t.Errorf("cleared %v: %v", cleared, err)
	}
}
