package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v3/pkg/oci/remote"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	"github.com/sigstore/cosign/v3/pkg/types"
	sigstoresign "github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// Says something about an artifact, and does not sign it.
const provenance = "https://slsa.dev/provenance/v1"

// `cosign sign --new-bundle-format=false`: a payload at the tag sha256-<hex>.sig.
func signImage(_ context.Context, words []string) error {
	signer, err := loadSigner(words[0])
	if err != nil {
		return err
	}
	reference, err := name.NewDigest(words[1], name.Insecure)
	if err != nil {
		return err
	}
	content, err := payload.Cosign{Image: reference}.MarshalJSON()
	if err != nil {
		return err
	}
	signed, err := signer.SignMessage(bytes.NewReader(content))
	if err != nil {
		return err
	}
	made, err := static.NewSignature(content, base64.StdEncoding.EncodeToString(signed))
	if err != nil {
		return err
	}
	entity, err := ociremote.SignedEntity(reference)
	if errors.As(err, new(*ociremote.EntityNotFoundError)) {
		entity, err = ociremote.SignedUnknown(reference), nil
	}
	if err != nil {
		return err
	}
	withIt, err := mutate.AttachSignatureToEntity(entity, made)
	if err != nil {
		return err
	}
	return ociremote.WriteSignatures(reference.Repository, withIt)
}

// `cosign verify --new-bundle-format=false`.
func verifyImage(ctx context.Context, words []string) error {
	options, err := checkOptions(words[0])
	if err != nil {
		return err
	}
	options.ClaimVerifier = cosign.SimpleClaimVerifier
	reference, err := name.ParseReference(words[1], name.Insecure)
	if err != nil {
		return err
	}
	checked, _, err := cosign.VerifyImageSignatures(ctx, reference, options)
	if err == nil {
		fmt.Println(len(checked))
	}
	return err
}

// `cosign sign` as of version 3: a bundle that refers to the artifact.
func signBundle(ctx context.Context, words []string) error {
	return attach(ctx, words, types.CosignSignPredicateType)
}

// `cosign attest`.
func attest(ctx context.Context, words []string) error {
	return attach(ctx, words, provenance)
}

func attach(ctx context.Context, words []string, predicate string) error {
	reference, err := name.NewDigest(words[1], name.Insecure)
	if err != nil {
		return err
	}
	algorithm, digest, _ := strings.Cut(reference.DigestStr(), ":")
	statement := fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{%q:%q}}],"predicateType":%q,"predicate":{}}`,
		algorithm, digest, predicate)
	content := &sigstoresign.DSSEData{Data: []byte(statement), PayloadType: types.IntotoPayloadType}
	made, err := makeBundle(ctx, words[0], content)
	if err != nil {
		return err
	}
	return ociremote.WriteAttestationNewBundleFormat(reference, made, predicate)
}

// `cosign verify` as of version 3.
func verifyBundle(ctx context.Context, words []string) error {
	options, err := checkOptions(words[0])
	if err != nil {
		return err
	}
	options.NewBundleFormat = true
	options.ClaimVerifier = cosign.IntotoSubjectClaimVerifier
	reference, err := name.ParseReference(words[1], name.Insecure)
	if err != nil {
		return err
	}
	checked, _, err := cosign.VerifyImageAttestations(ctx, reference, options, name.Insecure)
	if err == nil {
		fmt.Println(len(checked))
	}
	return err
}
