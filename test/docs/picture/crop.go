package main

import (
	"fmt"
	"image"
	"image/png"
	"os"
)

// border is what stays black around the text of a screen, in pixels.
const border = 8

// crop writes the part of a PNG that is not black, with a border.
func crop(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	screen, err := png.Decode(in)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}

	used := drawn(screen).Inset(-border)
	picture := image.NewRGBA(image.Rect(0, 0, used.Dx(), used.Dy()))
	for y := range used.Dy() {
		for x := range used.Dx() {
			picture.Set(x, y, image.Black.At(0, 0))
			if at := used.Min.Add(image.Pt(x, y)); at.In(screen.Bounds()) {
				picture.Set(x, y, screen.At(at.X, at.Y))
			}
		}
	}

	out, err := os.Create(to)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(out, picture); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// drawn returns the smallest rectangle with all that is not black.
func drawn(screen image.Image) image.Rectangle {
	var used image.Rectangle
	bounds := screen.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			if r, g, b, _ := screen.At(x, y).RGBA(); r+g+b > 0 {
				used = used.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return used
}
