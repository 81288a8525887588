package fault_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/fault"
)

const account, region = "111122223333", "us-east-1"

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    fault.Fault
		want string // part of the error; empty: none
	}{
		{"an instance", fault.Fault{Kind: fault.Isolate, Instance: "i-1"}, ""},
		{"no instance", fault.Fault{Kind: fault.Isolate}, "isolate needs: instance"},
		{"an operation of an instance", fault.Fault{Kind: fault.IMDS, Instance: "i-1", Operation: "ec2:*"}, "imds has no operation"},
		{"any capacity", fault.Fault{Kind: fault.Capacity}, ""},
		{"a zone", fault.Fault{Kind: fault.Zone, Zone: "us-east-1a"}, ""},
		{"a VPC's DNS", fault.Fault{Kind: fault.DNS, VPC: "vpc-1"}, ""},
		{"both DNS", fault.Fault{Kind: fault.DNS, VPC: "vpc-1", Instance: "i-1"}, "an instance or a VPC"},
		{"no DNS", fault.Fault{Kind: fault.DNS}, "an instance or a VPC"},
		{"throttling", fault.Fault{Kind: fault.Throttle, Operation: "ec2:Describe*", Percent: 50, Count: 3, Principal: "arn:*"}, ""},
		{"no service", fault.Fault{Kind: fault.Throttle, Operation: "DescribeInstances"}, "is not SERVICE:OPERATION"},
		{"no delay", fault.Fault{Kind: fault.Latency, Operation: "ec2:*"}, "latency needs: delay"},
		{"too long a delay", fault.Fault{Kind: fault.Latency, Operation: "ec2:*", Delay: time.Hour}, "a delay must be at most 5m0s"},
		{"too much", fault.Fault{Kind: fault.Error, Operation: "ec2:*", Percent: 101}, "percentage"},
		{"no status of an error", fault.Fault{Kind: fault.Error, Operation: "ec2:*", Status: 200}, "from 400 to 599"},
		{"a header in a code", fault.Fault{Kind: fault.Error, Operation: "ec2:*", Code: "A\r\nX-B: c"}, "only have letters"},
		{"a line break in a message", fault.Fault{Kind: fault.Error, Operation: "ec2:*", Code: "A", Message: "a\nb"}, "message must be printable text"},
		{"a long pattern", fault.Fault{Kind: fault.Throttle, Operation: "ec2:" + strings.Repeat("*", 300)}, "256 characters"},
		{"nothing", fault.Fault{}, "is not a kind of fault"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.f.Check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false},
		{"Describe*", "describeInstances", true}, {"*Instances", "DescribeInstances", true}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*a*b*c*", "xxaxxbxxcxx", true}, {"*a*b*c*", "xxaxxcxxbxx", false},
		{strings.Repeat("*a", 120), strings.Repeat("a", 10000) + "b", false},
	} {
		if got := fault.Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Match(%.20q, %.20q) = %v", tt.pattern, tt.name, got)
		}
	}
}

func newSet(faults ...fault.Fault) (*fault.Set, *testclock.FakePassiveClock) {
	clk := testclock.NewFakePassiveClock(time.Unix(1000, 0))
	s := fault.NewSet(fault.Config{Clock: clk, Roll: func() float64 { return 0.4 }})
	for i := range faults {
		faults[i].Account, faults[i].Region = account, region
		faults[i].ID = "F-" + string(rune('a'+i))
		faults[i].Since = time.Unix(int64(i), 0)
	}
	s.Replace(faults)
	return s, clk
}

func describe(principal string) fault.Call {
	return fault.Call{Account: account, Region: region, Services: [2]string{"ec2", "ec2"}, Operation: "DescribeInstances", Principals: [2]string{principal}}
}

func TestCalls(t *testing.T) {
	s, clk := newSet(
		fault.Fault{Kind: fault.Latency, Operation: "*:*", Delay: time.Second},
		fault.Fault{Kind: fault.Error, Operation: "ec2:Run*"},
		fault.Fault{Kind: fault.Throttle, Operation: "ec2:describe*", Principal: "arn:aws:iam::*:user/bob"},
		fault.Fault{Kind: fault.Error, Operation: "ec2:*", Percent: 40},
		fault.Fault{Kind: fault.Error, Operation: "ec2:*", Percent: 41, Until: time.Unix(2000, 0)},
	)
	failed := func(c fault.Call) string {
		e := s.Call(c)
		if e.Delay != time.Second || e.Delayed.ID != "F-a" {
			t.Errorf("delayed by %v", e.Delay)
		}
		if e.Failed == nil {
			return ""
		}
		return e.Failed.ID
	}
	got := []string{failed(describe("arn:aws:iam::1:user/bob")), failed(describe("arn:aws:iam::1:user/eve"))}
	clk.SetTime(time.Unix(2000, 0))
	got = append(got, failed(describe("arn:aws:iam::1:user/eve")))
	if diff := cmp.Diff([]string{"F-c", "F-e", ""}, got); diff != "" {
		t.Errorf("by principal, percentage and time (-want +got):\n%s", diff)
	}
	other := describe("")
	other.Account = "444455556666"
	if e := s.Call(other); e.Delay != 0 || e.Failed != nil {
		t.Errorf("another account's call: %+v", e)
	}
}

func TestCountIsExact(t *testing.T) {
	s := fault.NewSet(fault.Config{})
	f := fault.Fault{ID: "F-1", Kind: fault.Throttle, Account: account, Region: region, Operation: "ec2:*", Count: 100, Used: 10}
	s.Replace([]fault.Fault{f})
	var failed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if s.Call(describe("")).Failed != nil {
					failed.Add(1)
				}
				s.Replace([]fault.Fault{f}) // keeps what was used
			}
		})
	}
	wg.Wait()
	if used := s.Used()["F-1"]; failed.Load() != 90 || used < 100 || len(s.List("", "")) != 0 {
		t.Errorf("%d calls failed, want 90; %d were counted, want 100; %d faults left", failed.Load(), used, len(s.List("", "")))
	}
	select {
	case <-s.Counted():
	default:
		t.Error("nobody was told that the fault was used")
	}
}

func TestLaunches(t *testing.T) {
	s, _ := newSet(
		fault.Fault{Kind: fault.Zone, Zone: "us-east-1a"},
		fault.Fault{Kind: fault.Capacity, InstanceType: "m5.*", CapacityType: "spot"},
	)
	for _, tt := range []struct{ typ, zone, capacity, want string }{
		{"c5.large", "us-east-1a", "on-demand", "F-a"}, {"c5.large", "us-east-1b", "on-demand", ""},
		{"m5.large", "us-east-1b", "spot", "F-b"}, {"m5.large", "us-east-1b", "on-demand", ""},
	} {
		got := ""
		if f := s.NoCapacity(account, region, tt.typ, tt.zone, tt.capacity); f != nil {
			got = f.ID
		}
		if got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	if s.NoCapacity(account, "eu-west-1", "m5.large", "eu-west-1a", "spot") != nil {
		t.Error("another region has none either")
	}
}

func TestInstances(t *testing.T) {
	s, _ := newSet(
		fault.Fault{Kind: fault.IMDS, Instance: "i-1"},
		fault.Fault{Kind: fault.DNS, VPC: "vpc-1"},
		fault.Fault{Kind: fault.Zone, Zone: "us-east-1a"},
	)
	if s.Instance(fault.IMDS, account, region, "i-1") == nil || s.Instance(fault.Isolate, account, region, "i-1") != nil || s.Instance(fault.IMDS, account, region, "i-2") != nil {
		t.Error("a fault of an instance is of its kind and instance")
	}
	if n := len(s.Touching(account, region, "i-1", "us-east-1b", "vpc-1")); n != 2 {
		t.Errorf("%d faults touch i-1, want 2", n)
	}
	if n := len(s.Touching(account, region, "i-2", "us-east-1a", "vpc-2")); n != 1 {
		t.Errorf("%d faults touch i-2, want 1", n)
	}
	if n := len(s.Network(account, region)); n != 3 {
		t.Errorf("%d faults of the network, want 3", n)
	}
	s.Replace(nil)
	if len(s.List("", "")) != 0 || (*fault.Set)(nil).Instance(fault.IMDS, account, region, "i-1") != nil {
		t.Error("there are faults in an empty set")
	}
}

func BenchmarkCallWithoutFaults(b *testing.B) {
	s := fault.NewSet(fault.Config{})
	c := describe("arn:aws:iam::111122223333:user/bob")
	b.ReportAllocs()
	for b.Loop() {
		if s.Call(c).Failed != nil {
			b.Fatal("failed")
		}
	}
}

func BenchmarkCallWith256Faults(b *testing.B) {
	var all []fault.Fault
	for range 256 {
		all = append(all, fault.Fault{Kind: fault.Throttle, Account: account, Region: region, Operation: "ec2:*Instance", Principal: "arn:aws:iam::*:role/*"})
	}
	s := fault.NewSet(fault.Config{})
	s.Replace(all)
	c := describe("arn:aws:iam::111122223333:user/bob")
	b.ReportAllocs()
	for b.Loop() {
		if s.Call(c).Failed != nil {
			b.Fatal("failed")
		}
	}
}
