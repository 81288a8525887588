package twin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// Only reads may be listed, and none that returns a secret. The names are AWS's: whatever changes something does not
// begin with these verbs.
func TestOnlyReadsMayBeAsked(t *testing.T) {
	for _, o := range Operations() {
		if !strings.HasPrefix(o.Name, "Describe") && !strings.HasPrefix(o.Name, "List") && !strings.HasPrefix(o.Name, "Get") && o.Name != "SearchTransitGatewayRoutes" {
			t.Errorf("%s does not read", recording.Action(o.Service, o.Name))
		}
		if o.Why == "" {
			t.Errorf("%s has no reason", recording.Action(o.Service, o.Name))
		}
	}
	for _, secret := range []string{"secretsmanager GetSecretValue", "ec2 GetPasswordData", "ecr GetAuthorizationToken", "ssm GetParameter", "ssm GetParameters", "ssm GetParametersByPath", "sts GetSessionToken", "sts AssumeRole", "sts GetFederationToken", "codeartifact GetAuthorizationToken"} {
		service, name, _ := strings.Cut(secret, " ")
		if Allowed(service, name) {
			t.Errorf("%s returns a secret", recording.Action(service, name))
		}
	}
}

func TestPolicyAllowsWhatIsAsked(t *testing.T) {
	var p struct {
		Version   string
		Statement []struct {
			Effect string
			Action []string
		}
	}
	if err := json.Unmarshal([]byte(Policy()), &p); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, o := range Operations() {
		if o.Service != "sts" && o.Service != Kubernetes {
			want = append(want, recording.Action(o.Service, o.Name))
		}
	}
	slices.Sort(want)
	if got := p.Statement[0].Action; !slices.Equal(got, slices.Compact(want)) || p.Statement[0].Effect != "Allow" || p.Version != "2012-10-17" {
		t.Errorf("got %v", p)
	}
}

func example() *recording.Recording {
	return &recording.Recording{
		Source: recording.Source{Format: recording.FormatVersion, Partition: "aws", Account: "111122223333", Region: "eu-west-1", Caller: "arn:aws:iam::111122223333:user/dev", Started: time.Unix(1, 0).UTC(), Redacted: true},
		Answers: []recording.Answer{
			{Service: "ec2", Operation: "DescribeVpcs", Input: json.RawMessage(`{}`), Pages: []json.RawMessage{json.RawMessage(`{"Vpcs":[]}`)}},
			{Service: "iam", Operation: "ListOpenIDConnectProviders", Input: json.RawMessage(`{}`), Gap: &recording.Gap{Service: "iam", Operation: "ListOpenIDConnectProviders", Code: "AccessDenied"}},
		},
	}
}

// A recording that was interrupted is continued: what was answered is not asked again, what was denied is.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recording")
	want := example()
	f, err := OpenFolder(dir, want.Source)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range want.Answers {
		if err := f.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	// A gap that the continued recording does not have: what it is about is asked for in another way then.
	if err := f.Add(recording.Answer{Service: "iam", Operation: "GetRole", Input: json.RawMessage(`{}`), Gap: &recording.Gap{Service: "iam", Operation: "GetRole", Code: "AccessDenied"}}); err != nil {
		t.Fatal(err)
	}
	// Interrupted in the middle of a line.
	file, err := os.OpenFile(filepath.Join(dir, "ec2", "DescribeVpcs.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"service":"ec2","oper`); err != nil {
		t.Fatal(err)
	}
	file.Close()

	if _, err := OpenFolder(dir, recording.Source{Account: "444455556666", Region: "eu-west-1"}); err == nil {
		t.Error("another account's recording is continued")
	}
	f, err = OpenFolder(dir, want.Source)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Answer("ec2", "DescribeVpcs", json.RawMessage(`{}`)); !ok {
		t.Error("an answer is asked for again")
	}
	if _, ok := f.Answer("iam", "ListOpenIDConnectProviders", json.RawMessage(`{}`)); ok {
		t.Error("a denied question is not asked again")
	}
	more := recording.Answer{Service: "ec2", Operation: "DescribeVpcs", Input: json.RawMessage(`{"MaxResults":5}`), Pages: []json.RawMessage{json.RawMessage(`{}`)}}
	if err := f.Add(more); err != nil {
		t.Fatal(err)
	}
	want.Answers = []recording.Answer{want.Answers[0], more, want.Answers[1]}
	if _, err := f.Finish(want.Source); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	want.Source.Complete = true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := OpenFolder(dir, want.Source); err == nil {
		t.Error("a complete recording is continued")
	}
	if _, err := ReadFolder(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

// A command that keeps no recording goes on where the same one was interrupted, unless that was too long ago or another source. Two of
// the same do not share a folder, and folders are deleted once they are no longer needed.
func TestScratch(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "twins")
	take := func(command string, after time.Time) *Scratch {
		t.Helper()
		s, err := TakeScratch(parent, command, after)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	open := func(s *Scratch, of recording.Source) *Folder {
		t.Helper()
		f, err := s.Open(of)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	release := func(s *Scratch, needed bool) {
		t.Helper()
		if err := s.Release(needed); err != nil {
			t.Fatal(err)
		}
	}
	long, never := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	want := example()
	knows := func(f *Folder) bool {
		_, ok := f.Answer("ec2", "DescribeVpcs", json.RawMessage(`{}`))
		started, n := f.Continued()
		if ok != (n == 1) || ok != started.Equal(want.Source.Started) {
			t.Errorf("continued since %v with %d answers", started, n)
		}
		return ok
	}
	s := take("a", long)
	f := open(s, want.Source)
	if knows(f) {
		t.Error("a new folder has answers")
	}
	if err := f.Add(want.Answers[0]); err != nil {
		t.Fatal(err)
	}
	if other := take("a", long); other != nil {
		t.Error("two commands share a folder")
	}
	release(s, true)

	other := want.Source
	other.Account = "444455556666"
	s = take("a", long)
	if !knows(open(s, want.Source)) {
		t.Error("an interrupted command begins again")
	}
	if knows(open(s, other)) {
		t.Error("another source's answers are used")
	}
	f = open(s, want.Source)
	if err := f.Add(want.Answers[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(want.Source); err != nil {
		t.Fatal(err)
	}
	release(s, true)
	s = take("a", long)
	if !knows(open(s, want.Source)) {
		t.Error("what was read completely, but not loaded, is read again")
	}
	if dir, read, ok := s.Complete(); !ok || dir != filepath.Join(parent, "reading-a") || !read.Equal(want.Source.Started) {
		t.Errorf("what is used is in %s, read at %v, %v", dir, read, ok)
	}
	release(s, true)
	s = take("a", never)
	if knows(open(s, want.Source)) {
		t.Error("old answers are used")
	}
	release(s, true)
	s = take("b", never) // deletes a
	release(s, false)
	s = take("a", long)
	open(s, want.Source)
	release(s, true) // there are no answers
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What commands have left is deleted if it is old or of an account that is emptied, but not what a command uses, also if it was deleted
// and made again.
func TestCleanScratches(t *testing.T) {
	parent := t.TempDir()
	long := time.Now().Add(-time.Hour)
	left := func() string {
		t.Helper()
		all, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, e := range all {
			out += strings.TrimPrefix(e.Name(), "reading-")
		}
		return out
	}
	take := func(command, account string) *Scratch {
		t.Helper()
		s, err := TakeScratch(parent, command, long)
		if err != nil {
			t.Fatal(err)
		}
		of := example().Source
		of.Account = account
		f, err := s.Open(of)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add(example().Answers[0]); err != nil {
			t.Fatal(err)
		}
		return s
	}
	clean := func(before time.Time, account string) {
		t.Helper()
		if err := CleanScratches(parent, before, func(of string) bool { return of == account }); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := take("a", "111122223333"), take("b", "444455556666"), take("c", "111122223333")
	for _, s := range []*Scratch{a, b} {
		if err := s.Release(true); err != nil {
			t.Fatal(err)
		}
	}
	clean(long, "")
	if got := left(); got != "abc" {
		t.Errorf("new ones: left %s", got)
	}
	clean(long, "111122223333")
	if got := left(); got != "bc" {
		t.Errorf("of one account: left %s", got)
	}
	clean(time.Now().Add(time.Hour), "")
	if got := left(); got != "c" {
		t.Errorf("old ones: left %s", got)
	}
	f, err := os.Open(c.dir) // by a command that then waits until the last owner deletes it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unmoved(c.dir, f); err != nil {
		t.Error(err)
	}
	if err := c.Release(false); err != nil {
		t.Fatal(err)
	}
	if err := unmoved(c.dir, f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a deleted folder is used: %v", err)
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unmoved(c.dir, f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a deleted folder is used instead of the new one: %v", err)
	}
}

func TestSendAndReceive(t *testing.T) {
	want := example()
	want.Source.Complete = true
	var b bytes.Buffer
	if err := Send(want, &b); err != nil {
		t.Fatal(err)
	}
	got, err := Receive(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Whoever wrote a recording, reading it ends with an error or within its limits.
func TestHostileRecordings(t *testing.T) {
	good := example()
	good.Source.Complete = true
	for _, tt := range []struct {
		name, want string
		change     func(*recording.Recording)
	}{
		{"an operation that does not read", "not an operation that Drydock imports", func(r *recording.Recording) { r.Answers[0].Operation = "TerminateInstances" }},
		{"a path for an operation", "not an operation that Drydock imports", func(r *recording.Recording) { r.Answers[0].Operation = "../../x" }},
		{"another account number", "want 12 digits", func(r *recording.Recording) { r.Source.Account = "../x" }},
		{"another region", "invalid region", func(r *recording.Recording) { r.Source.Region = "eu/west" }},
		{"a later format", "format 2", func(r *recording.Recording) { r.Source.Format = 2 }},
		{"an interrupted one", "incomplete", func(r *recording.Recording) { r.Source.Complete = false }},
		{"endless pages", "too large", func(r *recording.Recording) {
			r.Answers[0].Pages = make([]json.RawMessage, recording.MaxPages+1)
			for i := range r.Answers[0].Pages {
				r.Answers[0].Pages[i] = json.RawMessage("{}")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := *good
			r.Answers = append([]recording.Answer{}, good.Answers...)
			tt.change(&r)
			var b bytes.Buffer
			if err := Send(&r, &b); err != nil {
				t.Fatal(err)
			}
			if _, err := Receive(&b); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Receive(strings.NewReader("not a recording")); err == nil {
		t.Error("garbage is accepted")
	}
}

func TestPagesOfAnotherTypeNameTheOperation(t *testing.T) {
	r := example()
	r.Answers[0].Pages[0] = json.RawMessage(`{"Vpcs":"none"}`)
	_, err := recording.Pages[struct{}, struct{ Vpcs []string }](r, "ec2", "DescribeVpcs")
	if err == nil || !strings.Contains(err.Error(), "ec2:DescribeVpcs") {
		t.Errorf("got %v", err)
	}
}

// Twins of older versions named the clusters of gaps only in their subjects.
func TestGapsOfTheFirstVersion(t *testing.T) {
	for _, tt := range []struct{ old, want recording.Gap }{
		{recording.Gap{Service: "eks", Operation: "DescribeAddon", Subject: "prod/vpc-cni"}, recording.Gap{Service: "eks", Operation: "DescribeAddon", Cluster: "prod", Subject: "prod/vpc-cni"}},
		{recording.Gap{Service: recording.Kubernetes, Subject: "the objects of cluster prod"}, recording.Gap{Service: recording.Kubernetes, Cluster: "prod"}},
		{recording.Gap{Service: recording.Kubernetes, Subject: "ec2nodeclasses.karpenter.k8s.aws of cluster prod"}, recording.Gap{Service: recording.Kubernetes, Cluster: "prod", Resource: "ec2nodeclasses.karpenter.k8s.aws"}},
		{recording.Gap{Service: recording.Kubernetes, Subject: "prod"}, recording.Gap{Service: recording.Kubernetes, Cluster: "prod"}},
		{recording.Gap{Service: recording.Kubernetes, Subject: "prod/shop/web"}, recording.Gap{Service: recording.Kubernetes, Cluster: "prod", Subject: "shop/web"}},
		{recording.Gap{Service: "ec2", Subject: "rtb-1"}, recording.Gap{Service: "ec2", Subject: "rtb-1"}},
	} {
		if got := tt.old.Placed(); got != tt.want || got.Placed() != got {
			t.Errorf("%+v becomes %+v, want %+v", tt.old, got, tt.want)
		}
	}
}
