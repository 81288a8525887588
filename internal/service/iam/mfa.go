package iam

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"image/png"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/boombuler/barcode"
	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp/hotp"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// maxMFADevices is how many devices a user may have.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_mfa.html
	maxMFADevices = 8
	// seedSize is the size of a device's secret in bytes, which is 64 characters in base32, as AWS's.
	seedSize = 40
	// codeLife is how long a code is shown (RFC 6238).
	codeLife = 30 * time.Second
	// startSkew is how many codes the clock of a device may be off when it is enabled or synchronized, and useSkew when
	// a code is used.
	startSkew, useSkew = 10, 1
)

// An mfaDevice is a virtual MFA device: an authenticator app that shows time-based one-time passwords.
type mfaDevice struct {
	Name, Path string
	Seed       string // in base32
	Created    time.Time
	UserID     string    `json:",omitempty"` // of the user for whom it is enabled
	Enabled    time.Time `json:",omitzero"`
	Ahead      int64     `json:",omitempty"` // codes by which its clock is ahead
	Used       int64     `json:",omitempty"` // number of the last code that was used; earlier ones are not valid
	Tags       []tag     `json:",omitempty"`
}

func (d *mfaDevice) arn(account string) string { return arn.IAM(account, "mfa"+d.Path+d.Name) }

// shows reports whether n is the number of the time span in which a device shows a code.
func (d *mfaDevice) shows(code string, n int64) bool {
	want, err := hotp.GenerateCode(d.Seed, uint64(n))
	return err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1
}

// span returns the number of the time span of a code at a time.
func span(at time.Time) int64 { return at.Unix() / int64(codeLife/time.Second) }

// synchronize sets a device's clock by two codes in a row. It returns false if the device does not show them.
func (d *mfaDevice) synchronize(now time.Time, first, second string) bool {
	for ahead := int64(-startSkew); ahead <= startSkew; ahead++ {
		if n := span(now) + ahead; n > d.Used && d.shows(first, n-1) && d.shows(second, n) {
			d.Ahead, d.Used = ahead, n
			return true
		}
	}
	return false
}

// spend uses up a code. It returns false if the device does not show it or has shown it before.
func (d *mfaDevice) spend(now time.Time, code string) bool {
	for skew := int64(-useSkew); skew <= useSkew; skew++ {
		if n := span(now) + d.Ahead + skew; n > d.Used && d.shows(code, n) {
			d.Used = n
			return true
		}
	}
	return false
}

// CreateVirtualMFADevice creates a device that no user has yet. Only its response contains the secret.
func (s *Service) CreateVirtualMFADevice(ctx context.Context, in *awsiam.CreateVirtualMFADeviceInput) (*awsiam.CreateVirtualMFADeviceOutput, error) {
	tags, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	seed := make([]byte, seedSize)
	rand.Read(seed) // never fails
	d := mfaDevice{Name: *in.VirtualMFADeviceName, Path: "/", Seed: base32.StdEncoding.EncodeToString(seed), Created: s.now(), Tags: tags}
	if in.Path != nil {
		d.Path = *in.Path
	}
	image, err := qrCode("otpauth://totp/" + d.Name + "@" + acct + "?secret=" + d.Seed)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := mfaDevices.Get(tx, nameKey(acct, d.Name)); err == nil {
			return mfaDeviceExists()
		}
		return mfaDevices.Create(tx, nameKey(acct, d.Name), d)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateVirtualMFADeviceOutput{VirtualMFADevice: &iamtypes.VirtualMFADevice{
		SerialNumber: aws.String(d.arn(acct)), Base32StringSeed: []byte(d.Seed), QRCodePNG: image, Tags: outTags(tags),
	}}, nil
}

// qrCode returns a picture of a text as PNG.
func qrCode(text string) ([]byte, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return nil, err
	}
	if code, err = barcode.Scale(code, 256, 256); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = png.Encode(&out, code)
	return out.Bytes(), err
}

// mfaKey returns the key of a device in the caller's account.
func mfaKey(ctx context.Context, serial string) (store.Key, error) {
	account, _, name, ok := arnName(serial, "mfa")
	if !ok || account != awsapi.CallFrom(ctx).Account {
		return store.Key{}, noSuchMFADevice(serial)
	}
	return nameKey(account, name), nil
}

// changeMFA changes the device with the serial number in a request.
func (s *Service) changeMFA(ctx context.Context, serial string, fn func(*store.Tx, *mfaDevice) error) error {
	key, err := mfaKey(ctx, serial)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		return store.NotFoundAs(mfaDevices.Update(tx, key, func(d *mfaDevice) error {
			if d.arn(key.Account) != serial {
				return store.ErrNotFound // another path
			}
			return fn(tx, d)
		}), noSuchMFADevice(serial))
	})
}

// EnableMFADevice gives a device to a user, who proves with two codes in a row to have its secret.
func (s *Service) EnableMFADevice(ctx context.Context, in *awsiam.EnableMFADeviceInput) (*awsiam.EnableMFADeviceOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	err := s.changeMFA(ctx, *in.SerialNumber, func(tx *store.Tx, d *mfaDevice) error {
		u, err := users.Get(tx, nameKey(acct, *in.UserName))
		switch {
		case err != nil:
			return store.NotFoundAs(err, noSuchUser(*in.UserName))
		case d.UserID != "":
			return mfaDeviceInUse()
		case len(devicesOf(tx, acct, u.ID)) >= maxMFADevices:
			return quotaExceeded("MFADevicesPerUser", maxMFADevices)
		case !d.synchronize(s.now(), *in.AuthenticationCode1, *in.AuthenticationCode2):
			return invalidMFACode()
		}
		d.UserID, d.Enabled = u.ID, s.now()
		return nil
	})
	return done[awsiam.EnableMFADeviceOutput](err)
}

// ResyncMFADevice sets the clock of a user's device by two codes in a row.
func (s *Service) ResyncMFADevice(ctx context.Context, in *awsiam.ResyncMFADeviceInput) (*awsiam.ResyncMFADeviceOutput, error) {
	err := s.changeOwnMFA(ctx, in.UserName, *in.SerialNumber, func(d *mfaDevice) error {
		if !d.synchronize(s.now(), *in.AuthenticationCode1, *in.AuthenticationCode2) {
			return invalidMFACode()
		}
		return nil
	})
	return done[awsiam.ResyncMFADeviceOutput](err)
}

// DeactivateMFADevice takes a device from its user.
func (s *Service) DeactivateMFADevice(ctx context.Context, in *awsiam.DeactivateMFADeviceInput) (*awsiam.DeactivateMFADeviceOutput, error) {
	err := s.changeOwnMFA(ctx, in.UserName, *in.SerialNumber, func(d *mfaDevice) error {
		d.UserID, d.Enabled = "", time.Time{}
		return nil
	})
	return done[awsiam.DeactivateMFADeviceOutput](err)
}

// changeOwnMFA changes a device of the user in a request, or of the caller.
func (s *Service) changeOwnMFA(ctx context.Context, name *string, serial string, fn func(*mfaDevice) error) error {
	n, err := userName(ctx, name)
	if err != nil {
		return err
	}
	return s.changeMFA(ctx, serial, func(tx *store.Tx, d *mfaDevice) error {
		u, err := users.Get(tx, nameKey(awsapi.CallFrom(ctx).Account, n))
		switch {
		case err != nil:
			return store.NotFoundAs(err, noSuchUser(n))
		case d.UserID != u.ID:
			return notUsersMFADevice()
		}
		return fn(d)
	})
}

// DeleteVirtualMFADevice deletes a device that no user has.
func (s *Service) DeleteVirtualMFADevice(ctx context.Context, in *awsiam.DeleteVirtualMFADeviceInput) (*awsiam.DeleteVirtualMFADeviceOutput, error) {
	key, err := mfaKey(ctx, *in.SerialNumber)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		d, err := mfaDevices.Get(tx, key)
		switch {
		case err != nil || d.arn(key.Account) != *in.SerialNumber:
			return cmp.Or(store.IgnoreNotFound(err), noSuchMFADevice(*in.SerialNumber))
		case d.UserID != "":
			return deleteConflict(mustDeactivateMFA)
		}
		mfaDevices.Delete(tx, key)
		return nil
	})
	return done[awsiam.DeleteVirtualMFADeviceOutput](err)
}

// devicesOf returns the devices that a user has.
func devicesOf(r store.Reader, account, userID string) []store.Item[mfaDevice] {
	return slices.DeleteFunc(mfaDevices.All(r, within(account)), func(i store.Item[mfaDevice]) bool { return i.Value.UserID != userID })
}

// ListMFADevices lists the devices of the user in the request, or of the caller. Root has none.
func (s *Service) ListMFADevices(ctx context.Context, in *awsiam.ListMFADevicesInput) (*awsiam.ListMFADevicesOutput, error) {
	if err := s.none(ctx, in.UserName); err != nil {
		return nil, err
	}
	list := []iamtypes.MFADevice{}
	if u, err := s.user(ctx, in.UserName); err == nil {
		acct := awsapi.CallFrom(ctx).Account
		for _, d := range devicesOf(s.store, acct, u.ID) {
			list = append(list, iamtypes.MFADevice{SerialNumber: aws.String(d.Value.arn(acct)), UserName: &u.Name, EnableDate: &d.Value.Enabled})
		}
	}
	p, err := paginate(list, func(d iamtypes.MFADevice) string { return *d.SerialNumber }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListMFADevicesOutput{MFADevices: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// GetMFADevice describes a device that a user has.
func (s *Service) GetMFADevice(ctx context.Context, in *awsiam.GetMFADeviceInput) (*awsiam.GetMFADeviceOutput, error) {
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	for _, d := range devicesOf(s.store, acct, u.ID) {
		if d.Value.arn(acct) == *in.SerialNumber {
			return &awsiam.GetMFADeviceOutput{SerialNumber: in.SerialNumber, UserName: &u.Name, EnableDate: &d.Value.Enabled}, nil
		}
	}
	return nil, noSuchMFADevice(*in.SerialNumber)
}

// ListVirtualMFADevices lists the account's devices, by default those that users have and the others.
func (s *Service) ListVirtualMFADevices(ctx context.Context, in *awsiam.ListVirtualMFADevicesInput) (*awsiam.ListVirtualMFADevicesOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	owners := map[string]*iamtypes.User{}
	for _, u := range users.All(s.store, within(acct)) {
		owners[u.Value.ID] = outUser(acct, &u.Value)
	}
	var list []iamtypes.VirtualMFADevice
	for _, d := range mfaDevices.All(s.store, within(acct)) {
		assigned := d.Value.UserID != ""
		if in.AssignmentStatus == iamtypes.AssignmentStatusTypeAssigned && !assigned || in.AssignmentStatus == iamtypes.AssignmentStatusTypeUnassigned && assigned {
			continue
		}
		out := iamtypes.VirtualMFADevice{SerialNumber: aws.String(d.Value.arn(acct)), User: owners[d.Value.UserID]}
		if assigned {
			out.EnableDate = &d.Value.Enabled
		}
		list = append(list, out)
	}
	p, err := paginate(list, func(d iamtypes.VirtualMFADevice) string { return *d.SerialNumber }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListVirtualMFADevicesOutput{VirtualMFADevices: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

func (s *Service) taggedMFA(ctx context.Context, serial *string) tagged {
	return func(change func(*[]tag) error) error {
		return s.changeMFA(ctx, *serial, func(_ *store.Tx, d *mfaDevice) error { return change(&d.Tags) })
	}
}

// TagMFADevice adds tags to a virtual MFA device.
func (s *Service) TagMFADevice(ctx context.Context, in *awsiam.TagMFADeviceInput) (*awsiam.TagMFADeviceOutput, error) {
	return done[awsiam.TagMFADeviceOutput](s.taggedMFA(ctx, in.SerialNumber).add("MFADevice", in.Tags))
}

// UntagMFADevice removes tags from a virtual MFA device.
func (s *Service) UntagMFADevice(ctx context.Context, in *awsiam.UntagMFADeviceInput) (*awsiam.UntagMFADeviceOutput, error) {
	return done[awsiam.UntagMFADeviceOutput](s.taggedMFA(ctx, in.SerialNumber).remove(in.TagKeys))
}

// ListMFADeviceTags lists the tags of a virtual MFA device.
func (s *Service) ListMFADeviceTags(ctx context.Context, in *awsiam.ListMFADeviceTagsInput) (*awsiam.ListMFADeviceTagsOutput, error) {
	key, err := mfaKey(ctx, *in.SerialNumber)
	if err != nil {
		return nil, err
	}
	d, err := mfaDevices.Get(s.store, key)
	if err != nil {
		return nil, store.NotFoundAs(err, noSuchMFADevice(*in.SerialNumber))
	}
	p, err := pageTags(d.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListMFADeviceTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// SpendMFACode checks and uses up a code of a user's device. known reports whether the user has the device, and valid
// whether the code is the device's and was not used before.
func (s *Service) SpendMFACode(ctx context.Context, p awsapi.Principal, serial, code string) (known, valid bool, err error) {
	account, _, name, ok := arnName(serial, "mfa")
	if !ok || account != p.Account || p.Type != awsapi.IAMUser {
		return false, false, nil
	}
	err = mfaDevices.UpdateOne(ctx, s.store, nameKey(account, name), func(d *mfaDevice) error {
		known = d.UserID == p.UserID && d.arn(account) == serial
		valid = known && d.spend(s.now(), code)
		return nil
	})
	return known, valid, store.IgnoreNotFound(err)
}
