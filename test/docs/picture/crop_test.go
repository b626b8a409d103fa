package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

func TestCropKeepsWhatIsDrawnAndABorder(t *testing.T) {
	screen := image.NewRGBA(image.Rect(0, 0, 100, 80))
	for _, at := range []image.Point{{0, 20}, {39, 50}} {
		screen.Set(at.X, at.Y, color.White)
	}
	from, to := filepath.Join(t.TempDir(), "screen.png"), filepath.Join(t.TempDir(), "picture.png")
	out, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(out, screen); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}

	if err := crop(from, to); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	picture, err := png.Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := image.Rect(0, 0, 40+2*border, 31+2*border); picture.Bounds() != want {
		t.Errorf("picture %v, want %v", picture.Bounds(), want)
	}
	if r, _, _, _ := picture.At(border+39, border+30).RGBA(); r == 0 {
		t.Error("the last pixel that was drawn is gone")
	}
}
