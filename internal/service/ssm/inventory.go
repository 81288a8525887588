package ssm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// Quotas of inventory. maxItems is our own, because instances that no longer exist keep theirs.
// https://docs.aws.amazon.com/general/latest/gr/ssm.html#limits_ssm
const (
	maxCustomTypes = 20
	maxItemSize    = 200 << 10 // bytes of JSON
	maxItems       = 5000      // per account and region
)

// instanceInformation is the type of inventory that every agent reports by itself.
const instanceInformation = "AWS:InstanceInformation"

// An itemRecord is what PutInventory stored about an instance for one type of inventory.
type itemRecord struct {
	InstanceID, Type, Schema, Captured string
	Hash                               string `json:",omitempty"`
	Content                            []map[string]string
}

var items = store.NewCollection[itemRecord]("ssm", "inventory-item") // INSTANCE/TYPE

// PutInventory stores inventory of an instance. An item without content keeps the content that it has.
func (s *Service) PutInventory(ctx context.Context, in *awsssm.PutInventoryInput) (*awsssm.PutInventoryOutput, error) {
	sc := scopeOf(ctx)
	if _, err := s.runningInstance(sc, *in.InstanceId); err != nil {
		return nil, err
	}
	for _, i := range in.Items {
		if len(i.Context) > 0 {
			return nil, awserr.NotImplemented("the context of inventory items")
		}
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		all := items.All(tx, sc.All())
		custom := map[string]bool{}
		for _, i := range all {
			custom[i.Value.Type] = strings.HasPrefix(i.Value.Type, "Custom:")
		}
		maps.DeleteFunc(custom, func(_ string, is bool) bool { return !is })
		for _, i := range in.Items {
			rec := itemRecord{*in.InstanceId, *i.TypeName, *i.SchemaVersion, *i.CaptureTime, aws.ToString(i.ContentHash), i.Content}
			if b, err := json.Marshal(rec.Content); err != nil || len(b) > maxItemSize {
				return &ssmtypes.ItemSizeLimitExceededException{TypeName: i.TypeName, Message: aws.String("The inventory item size has exceeded the size limit.")}
			}
			if strings.HasPrefix(rec.Type, "Custom:") {
				custom[rec.Type] = true
			}
			key := sc.Key(rec.InstanceID).Below(rec.Type)
			old, err := items.Get(tx, key)
			switch {
			case store.IsNotFound(err) && len(all) >= maxItems:
				return &ssmtypes.TotalSizeLimitExceededException{Message: aws.String("The size of inventory data has exceeded the total size limit for the resource.")}
			case err != nil && !store.IsNotFound(err):
				return err
			case err == nil && i.Content == nil:
				rec.Content = old.Content
			}
			if err := items.Put(tx, key, rec); err != nil {
				return err
			}
		}
		if len(custom) > maxCustomTypes {
			return &ssmtypes.CustomSchemaCountLimitExceededException{Message: aws.String("You have exceeded the limit for custom schemas. Delete one or more custom schemas and try again.")}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsssm.PutInventoryOutput{Message: aws.String("Inventory was stored successfully for the instance with ID: " + *in.InstanceId)}, nil // from memory
}

// inventoryOf returns the inventory of an account's instances: what was stored, and what the agents report. If instance is
// not empty, it returns only that instance's.
func (s *Service) inventoryOf(ctx context.Context, sc scope, instance string) []itemRecord {
	var out []itemRecord
	for _, i := range s.instances(sc) {
		if instance != "" && i.ID != instance {
			continue
		}
		status, at, registered := s.ping(ctx, &i)
		if !registered {
			continue
		}
		name, version := platform(i.Image.Family)
		agent := "Active"
		if status != ssmtypes.PingStatusOnline {
			agent = "ConnectionLost"
		}
		out = append(out, itemRecord{i.ID, instanceInformation, "1.0", at.Format(time.RFC3339), "", []map[string]string{{
			"AgentType": "amazon-ssm-agent", "AgentVersion": cmp.Or(s.fleet.AgentVersion(i.ID), latestAgent), "ComputerName": i.PrivateDNSName, "InstanceId": i.ID, "IpAddress": i.Address().String(), "PlatformName": *name,
			"PlatformType": string(ssmtypes.PlatformTypeLinux), "PlatformVersion": *version, "ResourceType": string(ssmtypes.ResourceTypeEc2Instance), "AgentStatus": agent, "InstanceStatus": "Active",
		}}})
	}
	within := sc.All()
	if instance != "" {
		within = sc.Key(instance).AllBelow()
	}
	for _, i := range items.All(s.store, within) {
		if i.Value.Type != instanceInformation {
			out = append(out, i.Value)
		}
	}
	return out
}

// compare reports whether a value passes a filter on its attribute. has is false if there is no value.
func compare(f ssmtypes.InventoryFilter, value string, has bool) bool {
	each := func(test func(want string) bool) bool { return has && slices.ContainsFunc(f.Values, test) }
	switch f.Type {
	case ssmtypes.InventoryQueryOperatorTypeNotEqual:
		return !has || !slices.Contains(f.Values, value)
	case ssmtypes.InventoryQueryOperatorTypeBeginWith:
		return each(func(want string) bool { return strings.HasPrefix(value, want) })
	case ssmtypes.InventoryQueryOperatorTypeLessThan:
		return each(func(want string) bool { return value < want })
	case ssmtypes.InventoryQueryOperatorTypeGreaterThan:
		return each(func(want string) bool { return value > want })
	case ssmtypes.InventoryQueryOperatorTypeExists:
		return has
	}
	return each(func(want string) bool { return value == want })
}

// ListInventoryEntries lists the entries of one type of an instance's inventory.
func (s *Service) ListInventoryEntries(ctx context.Context, in *awsssm.ListInventoryEntriesInput) (*awsssm.ListInventoryEntriesOutput, error) {
	sc := scopeOf(ctx)
	out := &awsssm.ListInventoryEntriesOutput{TypeName: in.TypeName, InstanceId: in.InstanceId, Entries: []map[string]string{}}
	all := s.inventoryOf(ctx, sc, *in.InstanceId)
	at := slices.IndexFunc(all, func(i itemRecord) bool { return i.Type == *in.TypeName })
	if at < 0 {
		if _, err := s.runningInstance(sc, *in.InstanceId); err != nil && len(all) == 0 {
			return nil, err
		}
		return out, nil
	}
	type entry struct {
		n    int
		text map[string]string
	}
	var entries []entry
	for n, e := range all[at].Content {
		if !slices.ContainsFunc(in.Filters, func(f ssmtypes.InventoryFilter) bool {
			value, has := e[strings.TrimPrefix(*f.Key, *in.TypeName+".")]
			return !compare(f, value, has)
		}) {
			entries = append(entries, entry{n, e})
		}
	}
	entries, next, err := paging.CutInOrder(associationPages, entries, func(e entry) string { return fmt.Sprintf("%06d", e.n) }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		out.Entries = append(out.Entries, e.text)
	}
	out.CaptureTime, out.SchemaVersion, out.NextToken = &all[at].Captured, &all[at].Schema, next
	return out, nil
}

// GetInventory returns the inventory of the instances that pass all filters, for one type.
func (s *Service) GetInventory(ctx context.Context, in *awsssm.GetInventoryInput) (*awsssm.GetInventoryOutput, error) {
	kind := instanceInformation
	if len(in.ResultAttributes) > 0 {
		kind = *in.ResultAttributes[0].TypeName
	}
	of := map[string][]itemRecord{}
	for _, i := range s.inventoryOf(ctx, scopeOf(ctx), "") {
		of[i.InstanceID] = append(of[i.InstanceID], i)
	}
	for _, f := range in.Filters {
		if !strings.HasPrefix(*f.Key, "AWS:") && !strings.HasPrefix(*f.Key, "Custom:") || !strings.Contains(*f.Key, ".") {
			return nil, &ssmtypes.InvalidFilter{Message: aws.String("The filter name is not valid. Verify the you entered the correct name and try again.")} // the API reference's words
		}
	}
	entities := []ssmtypes.InventoryResultEntity{}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if slices.ContainsFunc(in.Filters, func(f ssmtypes.InventoryFilter) bool { return !anyPasses(of[id], f) }) {
			continue
		}
		e := ssmtypes.InventoryResultEntity{Id: &id, Data: map[string]ssmtypes.InventoryResultItem{}}
		for _, i := range of[id] {
			if i.Type == kind {
				e.Data[kind] = ssmtypes.InventoryResultItem{TypeName: &i.Type, SchemaVersion: &i.Schema, CaptureTime: &i.Captured, ContentHash: optional(i.Hash), Content: append([]map[string]string{}, i.Content...)}
			}
		}
		entities = append(entities, e)
	}
	entities, next, err := paging.Cut(associationPages, entities, func(e ssmtypes.InventoryResultEntity) string { return *e.Id }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.GetInventoryOutput{Entities: append([]ssmtypes.InventoryResultEntity{}, entities...), NextToken: next}, nil
}

// anyPasses reports whether an entry of an instance's inventory passes a filter, whose key is TYPE.ATTRIBUTE. A negative
// filter must hold for all entries.
func anyPasses(of []itemRecord, f ssmtypes.InventoryFilter) bool {
	negative := f.Type == ssmtypes.InventoryQueryOperatorTypeNotEqual
	for _, i := range of {
		attribute, is := strings.CutPrefix(*f.Key, i.Type+".")
		for _, e := range i.Content {
			value, has := e[attribute]
			if is && compare(f, value, has) != negative {
				return !negative
			}
		}
	}
	return negative
}

// DeleteInventory deletes a custom type of inventory from all instances.
func (s *Service) DeleteInventory(ctx context.Context, in *awsssm.DeleteInventoryInput) (*awsssm.DeleteInventoryOutput, error) {
	if !strings.HasPrefix(*in.TypeName, "Custom:") {
		return nil, &ssmtypes.InvalidTypeNameException{Message: aws.String("The parameter type name isn't valid.")} // the API reference's words
	}
	if in.SchemaDeleteOption == ssmtypes.InventorySchemaDeleteOptionDisableSchema {
		return nil, awserr.NotImplemented("the option DisableSchema of DeleteInventory")
	}
	var found []store.Item[itemRecord]
	versions := map[string]int32{}
	for _, i := range items.All(s.store, scopeOf(ctx).All()) {
		if i.Value.Type == *in.TypeName {
			found = append(found, i)
			versions[i.Value.Schema]++
		}
	}
	summary := &ssmtypes.InventoryDeletionSummary{TotalCount: int32(len(found)), SummaryItems: []ssmtypes.InventoryDeletionSummaryItem{}} //nolint:gosec // at most maxItems
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		summary.SummaryItems = append(summary.SummaryItems, ssmtypes.InventoryDeletionSummaryItem{Version: &v, Count: versions[v]})
	}
	out := &awsssm.DeleteInventoryOutput{TypeName: in.TypeName, DeletionSummary: summary}
	if in.DryRun {
		summary.RemainingCount = summary.TotalCount
		return out, nil
	}
	out.DeletionId = in.ClientToken
	for some := range slices.Chunk(found, store.MaxWrites) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, i := range some {
				items.Delete(tx, i.Key)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// knownTypes are AWS's types of inventory on Linux, with their attributes.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/inventory-schema.html
var knownTypes = map[string]string{
	instanceInformation:               "AgentType AgentVersion ComputerName InstanceId IpAddress PlatformName PlatformType PlatformVersion ResourceType AgentStatus InstanceStatus",
	"AWS:Application":                 "Name ApplicationType Publisher Version Release Epoch InstalledTime Architecture URL Summary PackageId",
	"AWS:AWSComponent":                "Name ApplicationType Publisher Version InstalledTime Architecture URL",
	"AWS:BillingInfo":                 "BillingProductId",
	"AWS:File":                        "Name Size Description FileVersion InstalledDate ModificationTime LastAccessTime ProductName InstalledDir ProductLanguage CompanyName ProductVersion",
	"AWS:InstanceDetailedInformation": "CPUModel CPUSpeedMHz CPUs CPUSockets CPUCores CPUHyperThreadEnabled OSServicePack",
	"AWS:Network":                     "Name SubnetMask Gateway DHCPServer DNSServer MacAddress IPV4 IPV6",
}

// GetInventorySchema lists the types of inventory that there are, with the attributes of their entries.
func (s *Service) GetInventorySchema(ctx context.Context, in *awsssm.GetInventorySchemaInput) (*awsssm.GetInventorySchemaOutput, error) {
	attributes, schemas := map[string][]string{}, map[string]string{}
	for kind, text := range knownTypes {
		attributes[kind], schemas[kind] = strings.Fields(text), "1.0"
	}
	schemas["AWS:Application"] = "1.1"
	for _, i := range items.All(s.store, scopeOf(ctx).All()) {
		schemas[i.Value.Type] = max(schemas[i.Value.Type], i.Value.Schema)
		for _, e := range i.Value.Content {
			for _, k := range slices.Sorted(maps.Keys(e)) {
				if !slices.Contains(attributes[i.Value.Type], k) {
					attributes[i.Value.Type] = append(attributes[i.Value.Type], k)
				}
			}
		}
	}
	list := []ssmtypes.InventoryItemSchema{}
	for _, kind := range slices.Sorted(maps.Keys(schemas)) {
		if !strings.HasPrefix(kind, aws.ToString(in.TypeName)) {
			continue
		}
		schema := ssmtypes.InventoryItemSchema{TypeName: &kind, Version: aws.String(schemas[kind]), Attributes: []ssmtypes.InventoryItemAttribute{}}
		for _, k := range attributes[kind] {
			schema.Attributes = append(schema.Attributes, ssmtypes.InventoryItemAttribute{Name: &k, DataType: ssmtypes.InventoryAttributeDataTypeString})
		}
		list = append(list, schema)
	}
	size := cmp.Or(aws.ToInt32(in.MaxResults), 50)
	list, next, err := paging.Cut(associationPages, list, func(s ssmtypes.InventoryItemSchema) string { return *s.TypeName }, &size, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.GetInventorySchemaOutput{Schemas: append([]ssmtypes.InventoryItemSchema{}, list...), NextToken: next}, nil
}
