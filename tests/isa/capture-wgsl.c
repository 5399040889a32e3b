/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gives WGSL files to Dawn, with all features the adapter has, so that the layer writes the SPIR-V the driver gets, by the
 * names of the files. Dawn and the layer do what they do on this thread, so a name holds until the next one.
 *
 *   capture-wgsl FILE.wgsl…
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <webgpu/webgpu.h>

static const WGPUFeatureName wanted[] = {
  WGPUFeatureName_ShaderF16, WGPUFeatureName_Subgroups, WGPUFeatureName_SubgroupSizeControl,
  WGPUFeatureName_ChromiumExperimentalSubgroupMatrix };

static void
on_adapter (WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void *to, void *unused)
{
  if (status != WGPURequestAdapterStatus_Success)
    fprintf (stderr, "%.*s\n", (int) message.length, message.data);
  *(WGPUAdapter *) to = adapter;
  (void) unused;
}

static void
on_device (WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *to, void *unused)
{
  if (status != WGPURequestDeviceStatus_Success)
    fprintf (stderr, "%.*s\n", (int) message.length, message.data);
  *(WGPUDevice *) to = device;
  (void) unused;
}

static void
on_error (WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *file, void *unused)
{
  fprintf (stderr, "%s: %.*s\n", *(const char **) file, (int) message.length, message.data);
  (void) device, (void) type, (void) unused;
}

static char *
read_file (const char *path)
{
  FILE *file = fopen (path, "rb");
  char *text = calloc (1, 1 << 22);

  if (file == NULL || fread (text, 1, (1 << 22) - 1, file) == 0)
    {
      perror (path);
      exit (1);
    }
  fclose (file);
  return text;
}

int
main (int argc, char *argv[])
{
  static const WGPUInstanceFeatureName timed[] = { WGPUInstanceFeatureName_TimedWaitAny };
  /* As in the library. */
  const char *enabled[] = { "allow_unsafe_apis", "vulkan_enable_f16_on_nvidia" };
  WGPUDawnTogglesDescriptor toggles = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
  WGPUInstanceDescriptor instance_info = WGPU_INSTANCE_DESCRIPTOR_INIT;
  WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
  WGPURequestAdapterCallbackInfo adapter_call = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
  WGPUDeviceDescriptor device_info = WGPU_DEVICE_DESCRIPTOR_INIT;
  WGPURequestDeviceCallbackInfo device_call = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;
  WGPUFutureWaitInfo wait = WGPU_FUTURE_WAIT_INFO_INIT;
  WGPULimits limits = WGPU_LIMITS_INIT;
  WGPUFeatureName features[sizeof wanted / sizeof *wanted];
  WGPUInstance instance;
  WGPUAdapter adapter = NULL;
  WGPUDevice device = NULL;
  const char *current = "";

  toggles.enabledToggleCount = 2;
  toggles.enabledToggles = enabled;
  instance_info.nextInChain = &toggles.chain;
  instance_info.requiredFeatureCount = 1;
  instance_info.requiredFeatures = timed;
  instance = wgpuCreateInstance (&instance_info);
  options.nextInChain = &toggles.chain;
  options.backendType = WGPUBackendType_Vulkan;
  options.powerPreference = WGPUPowerPreference_HighPerformance;
  adapter_call.mode = device_call.mode = WGPUCallbackMode_WaitAnyOnly;
  adapter_call.callback = on_adapter;
  adapter_call.userdata1 = &adapter;
  wait.future = wgpuInstanceRequestAdapter (instance, &options, adapter_call);
  wgpuInstanceWaitAny (instance, 1, &wait, 30000000000);
  if (adapter == NULL)
    return 1;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (wgpuAdapterHasFeature (adapter, wanted[i]))
      features[device_info.requiredFeatureCount++] = wanted[i];
  wgpuAdapterGetLimits (adapter, &limits);
  device_info.nextInChain = &toggles.chain;
  device_info.requiredFeatures = features;
  device_info.requiredLimits = &limits;
  device_info.uncapturedErrorCallbackInfo.callback = on_error;
  device_info.uncapturedErrorCallbackInfo.userdata1 = &current;
  device_call.callback = on_device;
  device_call.userdata1 = &device;
  wait.future = wgpuAdapterRequestDevice (adapter, &device_info, device_call);
  wgpuInstanceWaitAny (instance, 1, &wait, 30000000000);
  if (device == NULL)
    return 1;
  for (int i = 1; i < argc; i++)
    {
      WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
      WGPUShaderModuleDescriptor module = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
      WGPUComputePipelineDescriptor pipeline = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
      char *text = read_file (argv[i]), *name = strdup (strrchr (argv[i], '/') != NULL ? strrchr (argv[i], '/') + 1 : argv[i]);

      name[strcspn (name, ".")] = '\0';
      setenv ("ISA_NAME", name, 1);
      current = argv[i];
      source.code = (WGPUStringView) { text, strlen (text) };
      module.nextInChain = &source.chain;
      pipeline.compute.module = wgpuDeviceCreateShaderModule (device, &module);
      wgpuDeviceCreateComputePipeline (device, &pipeline);
      free (text);
      free (name);
    }
  fflush (NULL);
  /* Skips the driver's clean-up, which would wait for its hardware. */
  _exit (0);
}
