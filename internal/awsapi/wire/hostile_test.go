package wire_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// The cost of a request is in proportion to its size, whatever is in it. It is measured by the memory that decoding
// allocates.
func TestDecodeOfHostileRequests(t *testing.T) {
	long := strings.Repeat("x", 1<<18)
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, op string
		in       any
		req      *wire.Request
		err      string // a prefix
	}{
		{
			name: "a long key of a list of many", op: "ssm.SendCommand", in: &awsssm.SendCommandInput{},
			req: rest("POST", "/", `{"DocumentName":"doc","Parameters":{"`+long+`":["x"`+strings.Repeat(`,"x"`, 50_000)+`]}}`),
		},
		{
			name: "a long name of an element with many", op: "route53.ChangeResourceRecordSets", in: &route53.ChangeResourceRecordSetsInput{},
			req: rest("POST", "/2013-04-01/hostedzone/Z/rrset/", `<R><ChangeBatch><Changes><`+long+`>`+numbered(50_000, "<a%d/>")+`</`+long+`></Changes></ChangeBatch></R>`),
			err: "InvalidInput: ",
		},
		{
			name: "a long name of many parts", op: "iam.CreateUser", in: &awsiam.CreateUserInput{},
			req: form("UserName=u&" + long + strings.Repeat(".1", 60) + "=x"),
		},
		{
			name: "many unknown members", op: "ssm.PutParameter", in: &awsssm.PutParameterInput{},
			req: rest("POST", "/", `{"Name":"n","Value":"v"`+numbered(100_000, `,"Unknown%d":1`)+`}`),
		},
		{
			name: "many missing members", op: "ssm.AddTagsToResource", in: &awsssm.AddTagsToResourceInput{},
			req: rest("POST", "/", `{"ResourceId":"r","ResourceType":"Parameter","Tags":[{}`+strings.Repeat(`,{}`, 90_000)+`]}`),
			err: "ValidationException: 1000 validation errors detected: ",
		},
		{
			name: "many values", op: "ssm.AddTagsToResource", in: &awsssm.AddTagsToResourceInput{},
			req: rest("POST", "/", `{"Tags":[{}`+strings.Repeat(`,{}`, 1_000_000)+`]}`),
			err: "SerializationException: The request has too many parameters.",
		},
		{
			name: "many elements", op: "route53.ChangeResourceRecordSets", in: &route53.ChangeResourceRecordSetsInput{},
			req: rest("POST", "/2013-04-01/hostedzone/Z/rrset/", `<R>`+strings.Repeat("<a/>", 500_000)+`</R>`),
			err: "InvalidInput: ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			members, err := wire.Decode(operation(t, c.op), c.req, c.in)
			if err == nil {
				err = wire.Validate(operation(t, c.op), nil, c.in, members)
			}
			runtime.ReadMemStats(&after)
			got := ""
			if e := (*awserr.Error)(nil); errors.As(err, &e) {
				got = e.Code + ": " + e.Message
			}
			if !strings.HasPrefix(got, c.err) || (c.err == "") != (err == nil) {
				t.Errorf("error %.200s (%.200v)", got, err)
			}
			sent := len(c.req.Body)
			if took := after.TotalAlloc - before.TotalAlloc; took > 200*uint64(sent) {
				t.Errorf("%d bytes took %d", sent, took)
			} else {
				t.Logf("%d times", took/uint64(sent))
			}
			kept := len(got)
			for m := range members {
				kept += len(m)
			}
			if kept > 2*sent+1<<20 {
				t.Errorf("%d bytes made names and texts of %d", sent, kept)
			}
		})
	}
}
