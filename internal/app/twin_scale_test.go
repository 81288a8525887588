package app

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A source that throttles only slows an import down.
func TestThrottledSource(t *testing.T) {
	from := startDaemon(t)
	const account = "470000000000"
	newNetWorld(t, from, account, "public").running(t)
	want := answers(t, readTwin(t, from, account, "test"))
	daemon := &api.Client{Daemon: from}
	for operation, count := range map[string]int64{"ec2:Describe*": 6, "iam:GetAccountAuthorizationDetails": 2, "kms:ListKeys": 1, "autoscaling:DescribeAutoScalingGroups": 1} {
		testkit.Must(daemon.SetFault(t.Context(), fault.Fault{Kind: fault.Throttle, Account: account, Region: "us-east-1", Operation: operation, Count: count}))(t)
	}
	began := time.Now()
	rec := readTwin(t, from, account, "test")
	if gaps := rec.Gaps(); len(gaps) > 0 {
		t.Errorf("gaps: %v", gaps)
	}
	if diff := gocmp.Diff(want, answers(t, rec)); diff != "" {
		t.Errorf("a throttled source is read otherwise:\n%s", diff)
	}
	t.Logf("read in %v", time.Since(began).Round(time.Millisecond))
}

// large is a recording of an account with so many interfaces and roles.
func large(t *testing.T, account string, interfaces, roles int) *recording.Recording {
	t.Helper()
	r := &recording.Recording{Source: recording.Source{Format: recording.FormatVersion, Partition: "aws", Account: account, Region: "us-east-1", Caller: "arn:aws:iam::" + account + ":root", Started: time.Now().UTC(), Complete: true}}
	add := func(service, operation string, pages ...any) {
		a := recording.Answer{Service: service, Operation: operation, Input: json.RawMessage(`{}`)}
		for _, p := range pages {
			a.Pages = append(a.Pages, testkit.Must(json.Marshal(p))(t))
		}
		r.Answers = append(r.Answers, a)
	}
	id := func(kind string, n int) *string { return aws.String(fmt.Sprintf("%s-%017x", kind, n)) }
	add("ec2", "DescribeVpcs", awsec2.DescribeVpcsOutput{Vpcs: []ec2types.Vpc{{VpcId: id("vpc", 1), CidrBlock: aws.String("10.0.0.0/16"), OwnerId: &account, DhcpOptionsId: id("dopt", 1)}}})
	add("ec2", "DescribeSubnets", awsec2.DescribeSubnetsOutput{Subnets: []ec2types.Subnet{{SubnetId: id("subnet", 1), VpcId: id("vpc", 1), CidrBlock: aws.String("10.0.0.0/17"), AvailabilityZone: aws.String("us-east-1a")}}})
	add("ec2", "DescribeSecurityGroups", awsec2.DescribeSecurityGroupsOutput{SecurityGroups: []ec2types.SecurityGroup{{GroupId: id("sg", 1), VpcId: id("vpc", 1), GroupName: aws.String("app"), IpPermissionsEgress: []ec2types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}}}})
	var pages []any
	for n := 0; n < interfaces; n += 1000 {
		var out awsec2.DescribeNetworkInterfacesOutput
		for i := n; i < min(n+1000, interfaces); i++ {
			address := aws.String(fmt.Sprintf("10.0.%d.%d", (i+10)/256, (i+10)%256))
			out.NetworkInterfaces = append(out.NetworkInterfaces, ec2types.NetworkInterface{
				NetworkInterfaceId: id("eni", i), SubnetId: id("subnet", 1), VpcId: id("vpc", 1), AvailabilityZone: aws.String("us-east-1a"), MacAddress: aws.String("02:00:00:00:00:01"), SourceDestCheck: aws.Bool(true),
				InterfaceType: ec2types.NetworkInterfaceTypeInterface, Groups: []ec2types.GroupIdentifier{{GroupId: id("sg", 1)}}, TagSet: []ec2types.Tag{{Key: aws.String("cluster.k8s.amazonaws.com/name"), Value: aws.String("prod")}},
				PrivateIpAddress: address, PrivateIpAddresses: []ec2types.NetworkInterfacePrivateIpAddress{{PrivateIpAddress: address, Primary: aws.Bool(true)}},
			})
		}
		pages = append(pages, out)
	}
	add("ec2", "DescribeNetworkInterfaces", pages...)
	pages = nil
	document := aws.String("%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22s3%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D")
	trust := aws.String("%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Principal%22%3A%7B%22Service%22%3A%22ec2.amazonaws.com%22%7D%2C%22Action%22%3A%22sts%3AAssumeRole%22%7D%5D%7D")
	for n := 0; n < roles; n += 1000 {
		var out awsiam.GetAccountAuthorizationDetailsOutput
		for i := n; i < min(n+1000, roles); i++ {
			name := fmt.Sprintf("role-%d", i)
			out.RoleDetailList = append(out.RoleDetailList, iamtypes.RoleDetail{
				Arn: aws.String("arn:aws:iam::" + account + ":role/" + name), RoleName: &name, Path: aws.String("/"), RoleId: aws.String(fmt.Sprintf("AROA%016d", i)), AssumeRolePolicyDocument: trust,
				RolePolicyList: []iamtypes.PolicyDetail{{PolicyName: aws.String("a"), PolicyDocument: document}, {PolicyName: aws.String("b"), PolicyDocument: document}},
			})
		}
		pages = append(pages, out)
	}
	add("iam", "GetAccountAuthorizationDetails", pages...)
	return r
}

// An account of 10,000 interfaces and 2,000 roles is read and loaded in less than 60 s and 500 MB, also if what its source needs in order to answer
// counts, which runs in the same process.
func TestTwinOfALargeAccount(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the default: with a larger GOGC, uncollected garbage would count
	from, to := startDaemon(t), startDaemon(t)
	const account, interfaces, roles = "480000000000", 10_000, 2_000
	loadTwin(t, from, large(t, account, interfaces, roles))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	runtime.GC()
	before, peak := heap(), uint64(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, heap())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	began := time.Now()
	loadTwin(t, to, readTwin(t, from, account, "test"))
	took := time.Since(began)
	close(done)
	wg.Wait()
	used := (peak - min(peak, before)) >> 20
	t.Logf("%d interfaces and %d roles: %v, %d MB", interfaces, roles, took.Round(time.Millisecond), used)
	if took > time.Minute || used > 500 {
		t.Errorf("took %v and %d MB", took, used)
	}
	out := testkit.Must(awsec2.NewFromConfig(configFor(to, account, "test")).DescribeNetworkInterfaces(t.Context(), &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{fmt.Sprintf("eni-%017x", interfaces-1)}}))(t)
	if len(out.NetworkInterfaces) != 1 || !strings.HasPrefix(*out.NetworkInterfaces[0].PrivateIpAddress, "10.0.39.") {
		t.Errorf("the last interface: %+v", out.NetworkInterfaces)
	}
}
