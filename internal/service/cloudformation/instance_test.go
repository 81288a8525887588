package cloudformation_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// asInstance calls an operation as cfn-signal does: with the instance's identity document.
func (w *world) asInstance(t *testing.T, document, signature string, parameters ...string) (int, string) {
	t.Helper()
	form := url.Values{"ContentType": {"JSON"}, "Version": {"2010-05-15"}}
	for i := 0; i+1 < len(parameters); i += 2 {
		form.Set(parameters[i], parameters[i+1])
	}
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/?"+form.Encode(), nil))(t)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "CFN_V1 "+base64.StdEncoding.EncodeToString([]byte(document))+":"+signature)
	resp := testkit.Must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(testkit.Must(io.ReadAll(resp.Body))(t))
}

// TestSignalsOfInstances signals as instances without credentials do, which may only signal for their own stack.
func TestSignalsOfInstances(t *testing.T) {
	w, signed := newRunning(t), base64.StdEncoding.EncodeToString([]byte("signed"))
	id := w.create(t, "mine", `{"Resources": {"W": {"Type": "AWS::CloudFormation::WaitCondition", "Metadata": {"k": ["v"]}, "CreationPolicy": {"ResourceSignal": {"Count": 1, "Timeout": "PT1H"}}}}}`)
	w.stackOf["i-1"], w.stackOf["i-2"] = id, "arn:aws:cloudformation:us-east-1:"+w.account+":stack/other/1"
	signal := []string{"Action", "SignalResource", "StackName", "mine", "LogicalResourceId", "W", "UniqueId", "i-1", "Status", "SUCCESS"}
	describe := []string{"Action", "DescribeStackResource", "StackName", "mine", "LogicalResourceId", "W"}
	for _, tt := range []struct {
		name, document, signature string
		parameters                []string
		status                    int
		want                      string
	}{
		{"a wrong signature", "i-1", base64.StdEncoding.EncodeToString([]byte("forged")), signal, 403, `"Code":"SignatureDoesNotMatch"`},
		{"no signature", "i-1", "", signal, 403, `"Code":"SignatureDoesNotMatch"`},
		{"another stack's instance", "i-2", signed, signal, 403, `"Code":"AccessDenied","Message":"Instance i-2 is not allowed to call SignalResource for mine"`},
		{"another stack's metadata", "i-2", signed, describe, 403, `Instance i-2 is not allowed to call DescribeStackResource for mine`},
		{"another operation", "i-1", signed, []string{"Action", "DescribeStacks"}, 403, `Instance i-1 is not allowed to call DescribeStacks`},
		{"another service", "i-1", signed, []string{"Action", "DescribeInstances", "Version", "2016-11-15"}, 400, `"Code":"InvalidAction"`},
	} {
		if status, body := w.asInstance(t, tt.document, tt.signature, tt.parameters...); status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, status, body, tt.status, tt.want)
		}
	}
	var status int
	var body string
	testkit.Eventually(t, 10*time.Second, func() error {
		if status, body = w.asInstance(t, "i-1", signed, describe...); status != http.StatusOK || !strings.Contains(body, "PhysicalResourceId") {
			return errors.New(body)
		}
		return nil
	})
	var detail struct {
		DescribeStackResourceResponse struct {
			DescribeStackResourceResult struct {
				StackResourceDetail struct {
					Metadata, ResourceStatus string
					LastUpdatedTimestamp     float64
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &detail); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if d := detail.DescribeStackResourceResponse.DescribeStackResourceResult.StackResourceDetail; d.Metadata != `{"k":["v"]}` || d.ResourceStatus != "CREATE_IN_PROGRESS" || d.LastUpdatedTimestamp == 0 {
		t.Errorf("%+v", d)
	}
	if status, body := w.asInstance(t, "i-1", signed, signal...); status != 200 || !strings.HasPrefix(body, `{"SignalResourceResponse":{"ResponseMetadata":{"RequestId":"`) {
		t.Errorf("%d %s", status, body)
	}
	w.want(t, id, "CREATE_COMPLETE")
	if status, body := w.asInstance(t, "i-1", signed, signal...); status != 400 || !strings.Contains(body, `"Code":"ValidationError","Message":"Stack `+id+` is in CREATE_COMPLETE state and cannot be signaled"`) {
		t.Errorf("%d %s", status, body)
	}
}

// TestGroupWithoutVPC refers to a security group of the default VPC by its name, as old templates do.
func TestGroupWithoutVPC(t *testing.T) {
	w, ctx := newWide(t), t.Context()
	image, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		t.Fatal("no image")
	}
	body := func(port int) string {
		return fmt.Sprintf(`
Resources:
  G: {Type: AWS::EC2::SecurityGroup, Properties: {GroupDescription: ssh, SecurityGroupIngress: [{IpProtocol: tcp, FromPort: %d, ToPort: 22, CidrIp: 0.0.0.0/0}]}}
  I: {Type: AWS::EC2::Instance, Properties: {ImageId: %s, InstanceType: t3.micro, SecurityGroups: [!Ref G]}}
Outputs:
  Name: {Value: !Ref G}
  ID: {Value: !GetAtt G.GroupId}
`, port, image.ID)
	}
	id := w.create(t, "old", body(22))
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	if !strings.HasPrefix(out["Name"], "old-G-") || !strings.HasPrefix(out["ID"], "sg-") {
		t.Errorf("%v", out)
	}
	r := testkit.Must(w.DescribeStackResources(ctx, &awscloudformation.DescribeStackResourcesInput{PhysicalResourceId: aws.String(out["Name"])}))(t).StackResources
	if len(r) != 2 || *r[0].PhysicalResourceId != out["Name"] {
		t.Errorf("%+v", r)
	}
	i := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeInstances(ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{*r[1].PhysicalResourceId}}))(t).Reservations[0].Instances[0]
	if len(i.SecurityGroups) != 1 || *i.SecurityGroups[0].GroupId != out["ID"] {
		t.Errorf("%+v", i.SecurityGroups)
	}
	if _, script := w.update(t, id, body(20), "UPDATE_COMPLETE"); strings.Contains(script, "I UPDATE") {
		t.Error(script)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
}
