package ecr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// An image, a tag or a layer whose record cannot be read is an internal failure. It is not missing.
func TestUnreadableImages(t *testing.T) {
	app := aws.String("app")
	for _, collection := range []string{"image", "tag", "layer"} {
		t.Run(collection, func(t *testing.T) {
			w := newWorld(t, "cannot be read")
			a, ctx := w.account(t), t.Context()
			a.repository(*app)
			broken, base := a.push(*app, "broken", "config", "base"), digestOf("base")
			names := map[string]string{"image": digestOf(broken), "tag": "broken", "layer": base}
			damaged := store.NewCollection[json.RawMessage]("ecr", collection, map[string][]store.Migration{"tag": {store.Same}}[collection]...)
			if err := w.Store.Update(ctx, func(tx *store.Tx) error {
				for _, item := range damaged.All(tx, store.Scope{}) {
					if strings.HasSuffix(item.Key.ID, "/"+names[collection]) {
						return damaged.Put(tx, item.Key, json.RawMessage(`"not an object"`))
					}
				}
				t.Fatalf("no %s %s", collection, names[collection])
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if collection == "layer" {
				if _, err := a.put(*app, "2", manifestOf("config", "base")+" "); awserr.CodeOf(err) != "InternalFailure" {
					t.Errorf("PutImage: %v", err)
				}
				return
			}
			ids := []ecrtypes.ImageIdentifier{{ImageTag: aws.String("broken")}}
			_, err := a.c.BatchGetImage(ctx, &awsecr.BatchGetImageInput{RepositoryName: app, ImageIds: ids})
			if awserr.CodeOf(err) != "InternalFailure" {
				t.Errorf("BatchGetImage: %v", err)
			}
			_, err = a.c.DescribeImages(ctx, &awsecr.DescribeImagesInput{RepositoryName: app, ImageIds: ids})
			if awserr.CodeOf(err) != "InternalFailure" {
				t.Errorf("DescribeImages: %v", err)
			}
			_, err = a.c.BatchDeleteImage(ctx, &awsecr.BatchDeleteImageInput{RepositoryName: app, ImageIds: ids})
			if awserr.CodeOf(err) != "InternalFailure" {
				t.Errorf("BatchDeleteImage: %v", err)
			}
			// Its layers stay when another image that has them is deleted.
			a.push(*app, "whole", "other", "base")
			testkit.Must(a.c.BatchDeleteImage(ctx, &awsecr.BatchDeleteImageInput{RepositoryName: app, ImageIds: []ecrtypes.ImageIdentifier{{ImageTag: aws.String("whole")}}}))(t)
			has := testkit.Must(a.c.BatchCheckLayerAvailability(ctx, &awsecr.BatchCheckLayerAvailabilityInput{RepositoryName: app, LayerDigests: []string{base}}))(t)
			if has.Layers[0].LayerAvailability != ecrtypes.LayerAvailabilityAvailable {
				t.Errorf("%+v", has.Layers[0])
			}
		})
	}
}
