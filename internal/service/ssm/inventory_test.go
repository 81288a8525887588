package ssm_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestInventory(t *testing.T) {
	w := newWorld(t, nil)
	w.fleet.more = []string{"i-11111111"}
	ctx := t.Context()
	put := func(c *awsssm.Client, instance, kind string, content ...map[string]string) error {
		_, err := c.PutInventory(ctx, &awsssm.PutInventoryInput{InstanceId: &instance, Items: []ssmtypes.InventoryItem{{
			TypeName: &kind, SchemaVersion: aws.String("1.0"), CaptureTime: aws.String("2026-05-04T10:01:01Z"), Content: content,
		}}})
		return err
	}
	if err := put(w.client, instanceID, "Custom:Rack", map[string]string{"Row": "C", "Shelf": "E"}, map[string]string{"Row": "D"}); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, put(w.client, "i-22222222", "Custom:Rack"), "InvalidInstanceId", "")
	many := make([]map[string]string, 60)
	for i := range many {
		many[i] = map[string]string{"a": strings.Repeat("x", 4000)}
	}
	testkit.WantError(t, put(w.client, instanceID, "Custom:Big", many...), "ItemSizeLimitExceededException", "")

	list := func(kind string, filters ...ssmtypes.InventoryFilter) []map[string]string {
		in := &awsssm.ListInventoryEntriesInput{InstanceId: aws.String(instanceID), TypeName: &kind}
		if filters != nil {
			in.Filters = filters
		}
		return testkit.Must(w.client.ListInventoryEntries(ctx, in))(t).Entries
	}
	filter := func(key string, kind ssmtypes.InventoryQueryOperatorType, values ...string) ssmtypes.InventoryFilter {
		return ssmtypes.InventoryFilter{Key: &key, Type: kind, Values: values}
	}
	if all, d := list("Custom:Rack"), list("Custom:Rack", filter("Row", "Equal", "D")); len(all) != 2 || len(d) != 1 || d[0]["Row"] != "D" {
		t.Errorf("%v, %v", all, d)
	}
	if info := list("AWS:InstanceInformation"); len(info) != 1 || info[0]["InstanceId"] != instanceID || info[0]["PlatformName"] != "Amazon Linux" {
		t.Errorf("%v", info)
	}
	// An item without content keeps what it has.
	if err := put(w.client, instanceID, "Custom:Rack"); err != nil || len(list("Custom:Rack")) != 2 {
		t.Errorf("%v, %v", err, list("Custom:Rack"))
	}

	for _, c := range []struct {
		filter ssmtypes.InventoryFilter
		want   int
	}{
		{filter("AWS:InstanceInformation.PlatformType", "Equal", "Linux"), 2},
		{filter("AWS:InstanceInformation.InstanceId", "NotEqual", instanceID), 1},
		{filter("AWS:InstanceInformation.InstanceId", "BeginWith", "i-1"), 1},
		{filter("Custom:Rack.Row", "GreaterThan", "C"), 1},
		{filter("Custom:Rack.Row", "LessThan", "C"), 0},
		{filter("Custom:Rack.Shelf", "Exists", "true"), 1},
	} {
		out, err := w.client.GetInventory(ctx, &awsssm.GetInventoryInput{Filters: []ssmtypes.InventoryFilter{c.filter}})
		if err != nil || len(out.Entities) != c.want {
			t.Errorf("%s %s %v finds %+v, %v", *c.filter.Key, c.filter.Type, c.filter.Values, out, err)
		}
	}
	_, err := w.client.GetInventory(ctx, &awsssm.GetInventoryInput{Filters: []ssmtypes.InventoryFilter{filter("Row", "Equal", "C")}})
	testkit.WantError(t, err, "InvalidFilter", "")
	_, err = w.client.GetInventory(ctx, &awsssm.GetInventoryInput{Aggregators: []ssmtypes.InventoryAggregator{{Expression: aws.String("AWS:InstanceInformation.PlatformType")}}})
	testkit.WantError(t, err, "NotImplemented", "")
	racks := testkit.Must(w.client.GetInventory(ctx, &awsssm.GetInventoryInput{ResultAttributes: []ssmtypes.ResultAttribute{{TypeName: aws.String("Custom:Rack")}}}))(t).Entities
	if len(racks) != 2 || len(racks[0].Data["Custom:Rack"].Content) != 2 || len(racks[1].Data) != 0 {
		t.Errorf("%+v", racks)
	}
	schemas := testkit.Must(w.client.GetInventorySchema(ctx, &awsssm.GetInventorySchemaInput{TypeName: aws.String("Custom:Rack")}))(t).Schemas
	if len(schemas) != 1 || len(schemas[0].Attributes) != 2 || *schemas[0].Attributes[0].Name != "Row" {
		t.Errorf("%+v", schemas)
	}

	carl := awsssm.NewFromConfig(w.AWSConfigWith(w.user(t, "carl", `{"Effect":"Allow","Action":"ssm:PutInventory","Resource":"*","Condition":{"StringLike":{"ssm:InventoryTypeName":"Custom:*"}}}`)))
	if err := put(carl, instanceID, "Custom:Rack", map[string]string{"Row": "A"}); err != nil {
		t.Error(err)
	}
	testkit.WantError(t, put(carl, instanceID, "AWS:Application", map[string]string{"Name": "x"}), "AccessDeniedException", "")

	rest := testkit.Must(w.client.DeleteInventory(ctx, &awsssm.DeleteInventoryInput{TypeName: aws.String("Custom:Rack"), DryRun: true}))(t)
	if rest.DeletionSummary.RemainingCount != 1 || rest.DeletionId != nil || len(list("Custom:Rack")) != 1 {
		t.Errorf("%+v", rest)
	}
	testkit.Must(w.client.DeleteInventory(ctx, &awsssm.DeleteInventoryInput{TypeName: aws.String("Custom:Rack")}))(t)
	if left := list("Custom:Rack"); len(left) != 0 {
		t.Errorf("%v", left)
	}
	_, err = w.client.DeleteInventory(ctx, &awsssm.DeleteInventoryInput{TypeName: aws.String("AWS:Application")})
	testkit.WantError(t, err, "InvalidTypeNameException", "")
}
