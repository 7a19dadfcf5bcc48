/* The words that a device file has for the enumerators of headroom/hardware.h, in their order. */
#ifndef HR_HARDWARE_CHOICES_H
#define HR_HARDWARE_CHOICES_H

static const char *const hr_calibration_names[] = {"estimated", "datasheet", "published", "measured"};

static const char *const hr_ceiling_names[] = {"product", "exp", "read", "copy"};

#define HR_CEILING_KIND_COUNT (sizeof hr_ceiling_names / sizeof *hr_ceiling_names)
#define HR_CALIBRATION_COUNT (sizeof hr_calibration_names / sizeof *hr_calibration_names)

#endif
