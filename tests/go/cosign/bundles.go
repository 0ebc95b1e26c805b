package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"os"

	"github.com/sigstore/cosign/v3/pkg/cosign"
	cosignbundle "github.com/sigstore/cosign/v3/pkg/cosign/bundle"
	"github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstoresign "github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// A key of cosign as sigstore-go wants one; cosign's own adapter is internal to it.
type keypair struct {
	signer signature.SignerVerifier
	public crypto.PublicKey
}

func (keypair) GetHashAlgorithm() v1.HashAlgorithm { return v1.HashAlgorithm_SHA2_256 }

func (keypair) GetSigningAlgorithm() v1.PublicKeyDetails {
	return v1.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256
}

func (k keypair) GetHint() []byte {
	der, err := x509.MarshalPKIXPublicKey(k.public)
	if err != nil {
		return nil
	}
	digest := sha256.Sum256(der)
	return []byte(base64.StdEncoding.EncodeToString(digest[:]))
}

func (keypair) GetKeyAlgorithm() string { return "ECDSA" }

func (k keypair) GetPublicKey() crypto.PublicKey { return k.public }

func (k keypair) GetPublicKeyPem() (string, error) {
	pem, err := cryptoutils.MarshalPublicKeyToPEM(k.public)
	return string(pem), err
}

func (k keypair) SignData(_ context.Context, data []byte) ([]byte, []byte, error) {
	digest := sha256.Sum256(data)
	signed, err := k.signer.SignMessage(bytes.NewReader(data))
	return signed, digest[:], err
}

func makeBundle(ctx context.Context, key string, content sigstoresign.Content) ([]byte, error) {
	signer, err := loadSigner(key)
	if err != nil {
		return nil, err
	}
	public, err := signer.PublicKey()
	if err != nil {
		return nil, err
	}
	// No service is asked for anything: no certificate, no log, no time stamp.
	services, err := root.NewSigningConfig(root.SigningConfigMediaType02, nil, nil, nil,
		root.ServiceConfiguration{}, nil, root.ServiceConfiguration{})
	if err != nil {
		return nil, err
	}
	return cosignbundle.SignData(ctx, content, keypair{signer, public}, "", nil, nil, services, nil, cosignbundle.SignOptions{})
}

func signBlobBundle(ctx context.Context, words []string) error {
	content, err := os.ReadFile(words[1])
	if err != nil {
		return err
	}
	made, err := makeBundle(ctx, words[0], &sigstoresign.PlainData{Data: content})
	if err != nil {
		return err
	}
	return os.WriteFile(words[2], made, 0o600)
}

func verifyBlobBundle(ctx context.Context, words []string) error {
	options, err := checkOptions(words[0])
	if err != nil {
		return err
	}
	content, err := os.Open(words[1])
	if err != nil {
		return err
	}
	defer content.Close()
	read, err := bundle.LoadJSONFromPath(words[2])
	if err != nil {
		return err
	}
	_, err = cosign.VerifyNewBundle(ctx, options, verify.WithArtifact(content), read)
	return err
}

// What `cosign verify --key --insecure-ignore-tlog` checks.
func checkOptions(public string) (*cosign.CheckOpts, error) {
	verifier, err := loadVerifier(public)
	if err != nil {
		return nil, err
	}
	if verifier == nil {
		return nil, errors.New("no key")
	}
	return &cosign.CheckOpts{SigVerifier: verifier, IgnoreTlog: true, IgnoreSCT: true, Offline: true}, nil
}
