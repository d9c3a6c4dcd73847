//! What becomes of the fields that are not carried, by the ends of their paths.
//!
//! An entry that no field meets any more fails the test, as does a field without an entry.

/// What may become of fields beside being carried or told as left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fates {
    /// Accepted, for the answer does not depend on it.
    pub(crate) hints: &'static [&'static str],
    /// Refused with its name.
    pub(crate) refused: &'static [&'static str],
}

pub(crate) const OF_MESSAGES: Fates = Fates {
    hints: &[
        // Marks for caches, and whom the vendor bills, watches or serves first.
        "cache_control",
        "betas",
        "diagnostics.previous_message_id",
        "inference_geo",
        "service_tier",
        "speed",
        "user_profile_id",
        "workspace_id",
        // What a vendor's server would do to long conversations; ours are carried whole.
        "context_management.edits",
        // How thoughts are shown and sealed: ours always come with a signature, and any is taken back.
        "adaptive.display",
        "enabled.display",
        "block_binding.prefix_mismatch_behavior",
        "thinking.signature",
        "redacted_thinking.data",
        // Where an earlier answer had its words from, and who made its calls.
        "text.citations",
        "tool_use.caller",
        // How the vendor's models find and call tools.
        "custom.allowed_callers",
        "custom.defer_loading",
        "custom.eager_input_streaming",
        "custom.input_examples",
    ],
    refused: &[
        "billing_policy",
        "compaction",
        "container",
        "container.id",
        "container.skills",
        "fallback_credit_token",
        "fallbacks",
        "mcp_servers",
        "task_budget.tokens",
        "thinking.between_tools",
        "thread",
        // Files that the vendor keeps, and documents that no chat worker reads.
        "document.source.base64",
        "document.source.file",
        "document.source.url",
        "image.source.file",
        // Blocks of the vendor's own tools.
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "browser_state",
        "code_execution_tool_result",
        "container_upload",
        "content.fallback",
        "mcp_tool_listing",
        "mcp_tool_result",
        "mcp_tool_use",
        "server_tool_use",
        "text_editor_code_execution_tool_result",
        "tool_addition",
        "tool_removal",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
        // Blocks of the other side.
        "assistant.content.document",
        "assistant.content.image",
        "assistant.content.search_result",
        "assistant.content.tool_result",
        "user.content.redacted_thinking",
        "user.content.thinking",
        "user.content.tool_use",
    ],
};

pub(crate) const OF_RESPONSES: Fates = Fates {
    hints: &[
        // How the vendor's servers keep prompts and pad streams.
        "context_management",
        "prompt_cache_options.comparison_response_id",
        "prompt_cache_options.mode",
        "prompt_cache_options.prewarm",
        "prompt_cache_options.ttl",
        "prompt_cache_retention",
        "stream_options.include_obfuscation",
        // What would come with the answers of tools that are not there.
        "include.code_interpreter_call.outputs",
        "include.computer_call_output.output.image_url",
        "include.file_search_call.results",
        "include.message.input_image.image_url",
        "include.web_search_call.action.sources",
        "include.web_search_call.results",
        // What earlier items are called, how they ended, and where their words are from.
        "compaction.id",
        "custom_tool_call.id",
        "custom_tool_call_output.id",
        "function_call.id",
        "function_call.status",
        "function_call_output.id",
        "function_call_output.name",
        "function_call_output.status",
        "message.id",
        "message.status",
        "message.user.status",
        "message.developer.status",
        "message.system.status",
        "phase",
        "output_text.annotations",
        "output_text.logprobs",
        "reasoning.id",
        "reasoning.status",
        // The default, and a wish that chat has no word for.
        "custom.format.text",
        "text.format.text",
        "text.verbosity",
        // How the vendor's models find tools and read what they give.
        "allowed_callers",
        "defer_loading",
        "output_schema",
    ],
    refused: &[
        "access_programs",
        "background_options",
        "conversation",
        "image",
        "moderation",
        "prompt",
        // Files that the vendor keeps, and pictures where only words are said.
        "input_file",
        "input_image.file_id",
        "assistant.content.input_image",
        "developer.content.input_image",
        "system.content.input_image",
        // Items of the vendor's own tools.
        "additional_tools",
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "compaction_trigger",
        "computer_call",
        "computer_call_output",
        "configuration_update",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
        // A tool of the vendor's that must be called.
        "tool_choice.apply_patch",
        "tool_choice.code_interpreter",
        "tool_choice.computer",
        "tool_choice.computer_use",
        "tool_choice.computer_use_preview",
        "tool_choice.file_search",
        "tool_choice.image_generation",
        "tool_choice.mcp",
        "tool_choice.programmatic_tool_calling",
        "tool_choice.shell",
        "tool_choice.web_search_preview",
        "tool_choice.web_search_preview_2025_03_11",
    ],
};

/// Fields of a request whose prompt is counted that are no part of it.
pub(crate) const UNCOUNTED: &[&str] = &[
    "output_config.effort",
    "output_config.format",
    "output_format",
    "parallel_tool_calls",
    "personality",
    "reasoning.context",
    "reasoning.effort",
    "reasoning.generate_summary",
    "reasoning.mode",
    "reasoning.summary",
    "text.format.json_object",
    "text.format.json_schema",
    "tool_choice",
    "truncation",
    // A picture has one price.
    "image.source.base64.data",
    "image.source.base64.media_type",
    "image.source.url.url",
    "input_image.detail",
    "input_image.image_url",
];

/// Fields of a compaction whose object does not repeat them.
pub(crate) const UNCOMPACTED: &[&str] = &["prompt_cache_key"];
