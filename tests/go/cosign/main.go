// What cosign's own code makes and accepts, for tests/tests/signatures: the keys, signatures and bundles of its commands generate-key-pair,
// sign, sign-blob, verify and verify-blob, without transparency log. The commands themselves would bring every cloud's key service along.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

const usage = `usage:
  cosign generate-key-pair PREFIX
  cosign public-key KEY
  cosign sign-blob KEY FILE SIGNATURE
  cosign sign-blob-bundle KEY FILE BUNDLE
  cosign verify-blob PUBLIC FILE SIGNATURE
  cosign verify-blob-bundle PUBLIC FILE BUNDLE
  cosign sign KEY REFERENCE
  cosign sign-bundle KEY REFERENCE
  cosign attest KEY REFERENCE
  cosign verify PUBLIC REFERENCE
  cosign verify-bundle PUBLIC REFERENCE
the password of a key is in COSIGN_PASSWORD; a reference names a digest in a registry that speaks HTTP`

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, words []string) error {
	commands := map[string]struct {
		words int
		do    func(context.Context, []string) error
	}{
		"generate-key-pair":  {1, generateKeyPair},
		"public-key":         {1, publicKey},
		"sign-blob":          {3, signBlob},
		"sign-blob-bundle":   {3, signBlobBundle},
		"verify-blob":        {3, verifyBlob},
		"verify-blob-bundle": {3, verifyBlobBundle},
		"sign":               {2, signImage},
		"sign-bundle":        {2, signBundle},
		"attest":             {2, attest},
		"verify":             {2, verifyImage},
		"verify-bundle":      {2, verifyBundle},
	}
	if len(words) == 0 {
		return errors.New(usage)
	}
	command, known := commands[words[0]]
	if !known || len(words) != 1+command.words {
		return errors.New(usage)
	}
	return command.do(ctx, words[1:])
}

func password(bool) ([]byte, error) {
	return []byte(os.Getenv("COSIGN_PASSWORD")), nil
}

func generateKeyPair(_ context.Context, words []string) error {
	keys, err := cosign.GenerateKeyPair(password)
	if err != nil {
		return err
	}
	if err := os.WriteFile(words[0]+".key", keys.PrivateBytes, 0o600); err != nil {
		return err
	}
	return os.WriteFile(words[0]+".pub", keys.PublicBytes, 0o644)
}

func publicKey(_ context.Context, words []string) error {
	signer, err := loadSigner(words[0])
	if err != nil {
		return err
	}
	public, err := signer.PublicKey()
	if err != nil {
		return err
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(pem)
	return err
}

func signBlob(_ context.Context, words []string) error {
	signer, err := loadSigner(words[0])
	if err != nil {
		return err
	}
	content, err := os.ReadFile(words[1])
	if err != nil {
		return err
	}
	signed, err := signer.SignMessage(bytes.NewReader(content))
	if err != nil {
		return err
	}
	return os.WriteFile(words[2], []byte(base64.StdEncoding.EncodeToString(signed)), 0o600)
}

func verifyBlob(_ context.Context, words []string) error {
	verifier, err := loadVerifier(words[0])
	if err != nil {
		return err
	}
	content, err := os.ReadFile(words[1])
	if err != nil {
		return err
	}
	encoded, err := os.ReadFile(words[2])
	if err != nil {
		return err
	}
	signed, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(encoded)))
	if err != nil {
		return err
	}
	return verifier.VerifySignature(bytes.NewReader(signed), bytes.NewReader(content))
}

func loadSigner(path string) (signature.SignerVerifier, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	words, err := password(false)
	if err != nil {
		return nil, err
	}
	return cosign.LoadPrivateKey(pem, words, nil)
}

func loadVerifier(path string) (signature.Verifier, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(pem)
	if err != nil {
		return nil, err
	}
	return signature.LoadDefaultVerifier(public)
}
