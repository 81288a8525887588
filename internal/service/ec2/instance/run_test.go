package instance

import (
	"reflect"
	"strings"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Stored launch template data is decoded as three SDK types. If one of them lacked a member of the
// request, its value would be lost silently.
func TestTemplateDataFitsEverySDKType(t *testing.T) {
	request := reflect.TypeFor[ec2types.RequestLaunchTemplateData]()
	missing := func(to reflect.Type) []string {
		var out []string
		compare(request, to, "", &out)
		return out
	}
	if got := missing(reflect.TypeFor[ec2types.ResponseLaunchTemplateData]()); len(got) > 0 {
		t.Errorf("the response lacks %v", got)
	}
	for _, m := range missing(reflect.TypeFor[awsec2.RunInstancesInput]()) {
		if top, _, _ := strings.Cut(m, "."); strings.Contains(RunMembers, top+" ") {
			t.Errorf("RunInstances honours %s but lacks %s", top, m)
		}
	}
}

// compare collects the paths of members of from that to lacks.
func compare(from, to reflect.Type, at string, out *[]string) {
	for from.Kind() == reflect.Pointer || from.Kind() == reflect.Slice {
		if from.Kind() != to.Kind() {
			*out = append(*out, at)
			return
		}
		from, to = from.Elem(), to.Elem()
	}
	if from.Kind() != to.Kind() {
		*out = append(*out, at)
		return
	}
	if from.Kind() != reflect.Struct || from == to || from.PkgPath() == "time" {
		return
	}
	for i := range from.NumField() {
		f := from.Field(i)
		if !f.IsExported() {
			continue
		}
		g, ok := to.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, f.Name) })
		if !ok {
			*out = append(*out, at+f.Name)
			continue
		}
		compare(f.Type, g.Type, at+f.Name+".", out)
	}
}

func TestStateText(t *testing.T) {
	if got, want := stateText(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)), "User initiated (2026-11-21 09:30:00 GMT)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
